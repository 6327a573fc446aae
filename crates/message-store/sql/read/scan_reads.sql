SELECT id, uid, sessionId, pcMid, mobileMid FROM {table}
WHERE id > ?
ORDER BY id LIMIT ?
