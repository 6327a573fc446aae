SELECT id, uid, sessionId, pcMid, mobileMid FROM {table}
WHERE id > {after}
ORDER BY id LIMIT {limit}
