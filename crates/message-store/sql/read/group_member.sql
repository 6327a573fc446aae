SELECT gid, uid, role, muted, join_mid, pos FROM {table}
WHERE gid = ? AND uid = ?
