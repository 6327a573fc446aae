SELECT uid, peer, last_mid, last_ts, last_srcid, preview, peer_n, own_n,
    pc_read_mid, pc_read_n, mobile_read_mid, mobile_read_n,
    chg, own_pos, pos, last_chg, last_state, favourite, pinned, muted, blocked, deleted_mid, clear_mid,
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
