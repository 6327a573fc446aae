SELECT {columns}
FROM {table}
-- Two ranges of the primary key, read in its order: a page costs the same anywhere in the rows of a user with many peers.
WHERE kind = 0 AND ((uid = {uid} AND peer > {peer}) OR uid > {uid})
ORDER BY uid, peer LIMIT {limit}
