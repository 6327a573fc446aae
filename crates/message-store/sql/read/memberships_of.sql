SELECT {columns} FROM {table}
WHERE uid = {uid} AND gid IN ({gids})
