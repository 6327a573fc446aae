SELECT {uid} AS uid, u.nick, u.avatar, u.extra, u.ts, u.pos,
    (SELECT COUNT(*) FROM (SELECT 1 FROM {memberships} WHERE uid = {uid} LIMIT {count}) AS few) AS memberships
FROM (SELECT 1) AS one
LEFT JOIN {table} AS u ON u.uid = {uid}
