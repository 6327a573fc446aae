DELETE FROM {table} WHERE (uid, gid) IN ({rows}) AND {may_go}
