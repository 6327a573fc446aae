SELECT gid, uid, role, muted, join_mid, pos FROM {table}
WHERE (gid = {gid} AND uid > {uid}) OR gid > {gid}
ORDER BY gid, uid LIMIT {limit}
