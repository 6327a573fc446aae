SELECT sink, uid, peer, device, mid, partition_no, messages_offset
FROM {table}
ORDER BY sink, uid, peer, device
LIMIT {limit} OFFSET {skipped}
