SELECT {columns} FROM {table}
WHERE id > {after}
ORDER BY id LIMIT {limit}
