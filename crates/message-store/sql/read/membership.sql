SELECT uid, gid, join_pos, left_pos, join_mid, own_last_mid, pc_read_mid, mobile_read_mid, clear_mid, own_pos, pos FROM {table}
WHERE uid = ? AND gid = ?
