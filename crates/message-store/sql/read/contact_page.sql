SELECT {columns},
    EXISTS (
        SELECT 1
        FROM {hidden} h
        WHERE h.uid = c.uid AND h.kind = 0 AND h.peer = c.peer AND h.mid = c.last_mid
    ) AS last_is_hidden
FROM {table} AS c
-- Three ranges of the index, read in its order.
WHERE kind = 0 AND uid = ?
    AND ((pinned = ? AND last_ts = ? AND peer < ?) OR (pinned = ? AND last_ts < ?) OR pinned < ?)
ORDER BY pinned DESC, last_ts DESC, peer DESC LIMIT ?
