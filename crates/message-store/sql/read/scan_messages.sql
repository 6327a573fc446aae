SELECT id, srcid, destid, mid, msg, ts, client_msg_id, n, state, edited_ts FROM {table}
WHERE id > {after}
ORDER BY id LIMIT {limit}
