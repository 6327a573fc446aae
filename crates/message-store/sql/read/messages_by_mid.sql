SELECT {columns} FROM {table} FORCE INDEX (inx_1)
WHERE {keys}
