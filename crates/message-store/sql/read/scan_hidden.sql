SELECT uid, peer, mid FROM {table}
WHERE kind = {kind} AND ((uid = {uid} AND peer = {peer} AND mid > {mid}) OR (uid = {uid} AND peer > {peer}) OR uid > {uid})
ORDER BY uid, kind, peer, mid LIMIT {limit}
