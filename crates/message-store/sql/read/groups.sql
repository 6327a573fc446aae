SELECT {columns}
FROM {table}
WHERE gid IN ({gids})
