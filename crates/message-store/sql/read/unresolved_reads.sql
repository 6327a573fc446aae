SELECT uid, peer, device, mid, messages_offset
FROM {table}
WHERE sink = '{sink}' AND (uid, peer, device) > ({uid}, {peer}, '{device}')
ORDER BY uid, peer, device
LIMIT {limit}
