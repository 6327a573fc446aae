ALTER TABLE {database}.contact_{n} DROP KEY inx_1, ADD KEY inx_2 (uid, pinned, last_ts, peer)
