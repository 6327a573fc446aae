SELECT gid, uid, role, muted, join_mid, pos FROM {table}
WHERE gid = ? AND uid > ? AND role > 0
ORDER BY uid LIMIT ?
