SELECT {columns} FROM {table}
WHERE gid = ? AND mid < ? AND mid > ?
ORDER BY mid DESC LIMIT ?
