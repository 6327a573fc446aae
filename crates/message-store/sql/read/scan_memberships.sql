SELECT {columns} FROM {table}
WHERE (uid = {uid} AND gid > {gid}) OR uid > {uid}
ORDER BY uid, gid LIMIT {limit}
