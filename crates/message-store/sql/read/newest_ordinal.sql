SELECT n FROM {table}
WHERE srcid = ? AND destid = ? AND mid <= ?
ORDER BY mid DESC LIMIT 1
