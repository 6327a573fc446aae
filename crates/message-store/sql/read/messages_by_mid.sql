SELECT id, srcid, destid, mid, msg, ts, client_msg_id, n FROM {table}
WHERE {places}
