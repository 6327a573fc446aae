ALTER TABLE {database}.group_member_{n} ADD KEY inx_1 (role, pos)
