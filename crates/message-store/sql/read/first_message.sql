SELECT 1 AS present FROM {table}
WHERE srcid = ? AND destid = ? AND mid = 1
