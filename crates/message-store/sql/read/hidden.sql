SELECT mid FROM {table}
WHERE uid = ? AND kind = 0 AND peer = ? AND mid BETWEEN ? AND ?
