SELECT uid, gid, left_pos FROM {table}
WHERE left_pos >= {from} AND {may_go}
ORDER BY left_pos LIMIT {limit}
