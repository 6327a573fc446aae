SELECT id, gid, mid, srcid, msg, ts, client_msg_id, state, edited_ts FROM {table}
WHERE id > {after}
ORDER BY id LIMIT {limit}
