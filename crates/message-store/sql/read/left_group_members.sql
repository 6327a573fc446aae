SELECT uid, gid, pos AS left_pos FROM {table}
WHERE pos >= {from} AND {may_go}
ORDER BY pos LIMIT {limit}
