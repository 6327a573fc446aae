SELECT r.uid, r.peer, r.mid
FROM {table} AS r
LEFT JOIN {contact} AS c ON c.uid = r.uid AND c.kind = 0 AND c.peer = r.peer
WHERE r.sink = '{sink}' AND r.device = '{device}' AND r.uid MOD 64 = {number}
    AND (c.uid IS NULL OR c.{device}_read_mid <> r.mid OR c.{device}_read_n IS NOT NULL)
