SELECT uid, peer, last_mid, last_ts, last_srcid, preview, peer_n, own_n,
    pc_read_mid, pc_read_n, mobile_read_mid, mobile_read_n,
    chg, own_pos, pos, last_chg, last_state, favourite, pinned, muted, blocked, deleted_mid, clear_mid
FROM {table}
WHERE kind = 0 AND uid = ? AND peer = ?
