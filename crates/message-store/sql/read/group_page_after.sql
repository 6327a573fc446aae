SELECT {columns} FROM {table}
WHERE gid = ? AND mid > ?
ORDER BY mid LIMIT ?
