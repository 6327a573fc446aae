SELECT {columns} FROM {table}
WHERE uid = ? AND gid = ?
