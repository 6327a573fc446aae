SELECT uid, peer, last_mid, last_ts, last_srcid, preview, peer_n, own_n,
    pc_read_mid, pc_read_n, mobile_read_mid, mobile_read_n, del_flag, favourite
FROM {table}
-- The first condition on last_ts is implied by the second, and is what the index can use.
WHERE kind = 0 AND uid = ? AND last_ts <= ? AND (last_ts < ? OR peer < ?)
ORDER BY last_ts DESC, peer DESC LIMIT ?
