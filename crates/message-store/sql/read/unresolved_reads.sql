SELECT uid, peer, device, mid, messages_offset
FROM {table}
-- Three ranges of the primary key, read in its order: a page costs the same anywhere. A comparison of rows is no range for MariaDB.
WHERE sink = '{sink}' AND ((uid = {uid} AND peer = {peer} AND device > '{device}') OR (uid = {uid} AND peer > {peer}) OR uid > {uid})
    AND partition_no IN ({partitions})
ORDER BY uid, peer, device
LIMIT {limit}
