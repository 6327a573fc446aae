ALTER TABLE {database}.group_{n} ADD KEY inx_1 (pos), ADD KEY inx_2 (last_ts, gid)
