SELECT id, gid, mid, srcid, msg, ts, client_msg_id, state, edited_ts FROM {table}
WHERE gid = ? AND mid < ? AND mid > ?
ORDER BY mid DESC LIMIT ?
