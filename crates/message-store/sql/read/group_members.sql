SELECT {columns} FROM {table}
WHERE gid = ? AND uid > ? AND role > 0
ORDER BY uid LIMIT ?
