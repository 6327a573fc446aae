SELECT {columns}
FROM {table}
WHERE gid > {after}
ORDER BY gid LIMIT {limit}
