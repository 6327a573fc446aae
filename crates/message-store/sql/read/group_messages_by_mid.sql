SELECT id, gid, mid, srcid, msg, ts, client_msg_id, state, edited_ts FROM {table} FORCE INDEX (inx_1)
WHERE {places}
