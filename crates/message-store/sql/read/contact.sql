SELECT {columns}
FROM {table}
WHERE kind = 0 AND uid = ? AND peer = ?
