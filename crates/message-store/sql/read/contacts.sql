SELECT {columns}
FROM {table}
WHERE kind = 0 AND ({pairs})
