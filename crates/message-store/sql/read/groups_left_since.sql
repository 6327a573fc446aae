SELECT STRAIGHT_JOIN g.gid
FROM {table} AS g FORCE INDEX (inx_1)
JOIN {members} AS m ON m.gid = g.gid AND m.uid = {uid} AND m.role = 0 AND m.pos >= {since}
WHERE g.pos >= {since}
