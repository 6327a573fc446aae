SELECT id, srcid, destid, mid, msg, ts, client_msg_id, n FROM {table}
WHERE srcid = ? AND destid = ? AND client_msg_id = ?
ORDER BY mid
