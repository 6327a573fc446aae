DELETE u
FROM {table} u JOIN {contact} c ON c.uid = u.uid AND c.kind = 0 AND c.peer = u.peer
WHERE u.sink = '{sink}' AND u.device = '{device}' AND (c.{device}_read_mid > u.mid OR c.{device}_read_n IS NOT NULL)
