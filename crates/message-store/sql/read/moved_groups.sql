SELECT STRAIGHT_JOIN g.gid, g.name, g.owner, g.open, g.whole_history, g.muted, g.dissolved, g.member_count,
    g.last_mid, g.last_ts, g.last_srcid, g.preview, g.last_chg, g.last_state, g.chg, g.pos,
    m.role AS member_role, m.muted AS member_muted, m.join_mid
FROM {table} AS g FORCE INDEX (inx_1)
JOIN {members} AS m ON m.gid = g.gid AND m.uid = {uid}
WHERE g.pos >= {since} AND (m.role > 0 AND g.owner > 0 OR m.role = 0 AND m.pos >= {left_since})
