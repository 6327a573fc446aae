SELECT {columns} FROM {table}
WHERE uid = ? AND (gid % 64 > ? OR (gid % 64 = ? AND gid > ?))
ORDER BY gid % 64, gid LIMIT ?
