SELECT pcMid, mobileMid FROM {table}
WHERE uid = ? AND sessionId = ?
