SELECT {columns}
FROM {table} AS g
JOIN {members} AS m ON m.gid = g.gid AND m.uid = {uid} AND m.role > 0
WHERE g.gid IN ({gids}) AND g.owner > 0 AND g.pos >= {since}
