ALTER TABLE {database}.membership_{n} ADD KEY inx_1 (left_pos)
