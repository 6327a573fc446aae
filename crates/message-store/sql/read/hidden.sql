SELECT mid FROM {table}
WHERE uid = ? AND kind = ? AND peer = ? AND mid BETWEEN ? AND ?
