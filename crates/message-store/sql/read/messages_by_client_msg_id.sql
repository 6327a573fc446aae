-- No index has the id, so only the sender's newest rows are read: a conversation may go on for years.
SELECT {columns}
FROM (SELECT id, ts, client_msg_id AS id_of_send FROM {table}
      WHERE srcid = ? AND destid = ?
      ORDER BY mid DESC LIMIT 1000) AS newest
JOIN {table} USING (id, ts)
-- The id is compared by its bytes, since the collation ignores spaces at the end.
WHERE CAST(id_of_send AS BINARY) = CAST(? AS BINARY)
ORDER BY mid
