SELECT uid, peer, device, mid, messages_offset
FROM {table}
WHERE sink = '{sink}' AND (uid, peer, device) > ({uid}, {peer}, '{device}') AND partition_no IN ({partitions})
ORDER BY uid, peer, device
LIMIT {limit}
