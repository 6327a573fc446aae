-- No index has the id: of a conversation that goes on for years only the sender's newest rows are read.
SELECT m.id, m.srcid, m.destid, m.mid, m.msg, m.ts, m.client_msg_id, m.n, m.state, m.edited_ts
FROM (SELECT id, ts, client_msg_id FROM {table}
      WHERE srcid = ? AND destid = ?
      ORDER BY mid DESC LIMIT 1000) AS newest
JOIN {table} AS m ON m.id = newest.id AND m.ts = newest.ts
-- By its bytes: the collation ignores spaces at the end.
WHERE CAST(newest.client_msg_id AS BINARY) = CAST(? AS BINARY)
ORDER BY m.mid
