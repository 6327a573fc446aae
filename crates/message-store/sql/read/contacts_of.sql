SELECT {columns}
FROM {table}
WHERE kind = 0 AND ((uid = {uid} AND peer > {peer}) OR uid IN ({uids}))
ORDER BY uid, peer LIMIT {limit}
