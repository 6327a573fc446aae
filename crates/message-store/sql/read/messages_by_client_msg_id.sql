-- No index has the id: of a conversation that goes on for years only the sender's newest rows are read.
SELECT {columns}
FROM (SELECT id, ts, client_msg_id AS id_of_send FROM {table}
      WHERE srcid = ? AND destid = ?
      ORDER BY mid DESC LIMIT 1000) AS newest
JOIN {table} USING (id, ts)
-- By its bytes: the collation ignores spaces at the end.
WHERE CAST(id_of_send AS BINARY) = CAST(? AS BINARY)
ORDER BY mid
