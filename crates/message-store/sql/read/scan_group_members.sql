SELECT {columns} FROM {table}
WHERE (gid = {gid} AND uid > {uid}) OR gid > {gid}
ORDER BY gid, uid LIMIT {limit}
