SELECT gid FROM {table} WHERE uid = {uid} AND role = 0 AND pos >= {since} AND gid IN ({gids})
