SELECT gid, name, owner, open, whole_history, muted, dissolved, member_count,
    last_mid, last_ts, last_srcid, preview, last_chg, last_state, chg, pos
FROM {table}
WHERE gid > {after}
ORDER BY gid LIMIT {limit}
