SELECT STRAIGHT_JOIN {columns}
FROM {table} AS g FORCE INDEX (inx_1)
JOIN {members} AS m ON m.gid = g.gid AND m.uid = {uid}
WHERE g.pos >= {since} AND (m.role > 0 AND g.owner > 0 OR m.role = 0 AND m.pos >= {left_since})
