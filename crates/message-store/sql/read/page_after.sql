(SELECT id, srcid, destid, mid, msg, ts, client_msg_id, n, state, edited_ts FROM {table}
 WHERE srcid = ? AND destid = ? AND mid > ?
 ORDER BY mid LIMIT ?)
UNION ALL
(SELECT id, srcid, destid, mid, msg, ts, client_msg_id, n, state, edited_ts FROM {table}
 WHERE srcid = ? AND destid = ? AND srcid <> destid AND mid > ?
 ORDER BY mid LIMIT ?)
ORDER BY mid LIMIT ?
