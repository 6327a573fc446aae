SELECT {columns},
    EXISTS (
        SELECT 1
        FROM {hidden} h
        WHERE h.uid = c.uid AND h.kind = 0 AND h.peer = c.peer AND h.mid = c.last_mid
    ) AS last_is_hidden
FROM {table} AS c
-- (uid % 64 + peer % 64) % 64 is the partition of a conversation; uid + peer may be too large for a BIGINT.
WHERE kind = 0 AND uid = {uid}
    AND ((uid % 64 + peer % 64) % 64 > {partition} OR ((uid % 64 + peer % 64) % 64 = {partition} AND peer > {peer}))
    AND pos >= CAST(ELT((uid % 64 + peer % 64) % 64 + 1, {since}) AS SIGNED)
ORDER BY (uid % 64 + peer % 64) % 64, peer LIMIT {limit}
