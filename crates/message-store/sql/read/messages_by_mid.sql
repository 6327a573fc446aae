SELECT id, srcid, destid, mid, msg, ts, client_msg_id, n, state, edited_ts FROM {table}
WHERE {places}
