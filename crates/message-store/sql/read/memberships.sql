SELECT {columns} FROM {table}
WHERE uid = ? AND gid > ?
ORDER BY gid LIMIT ?
