SELECT mid FROM {table}
WHERE uid = ? AND kind = 1 AND peer = ? AND mid BETWEEN ? AND ?
