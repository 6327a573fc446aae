SELECT {columns} FROM {table}
WHERE gid = ? AND uid = ?
