(SELECT {columns} FROM {table}
 WHERE srcid = ? AND destid = ? AND mid > ?
 ORDER BY mid LIMIT ?)
UNION ALL
(SELECT {columns} FROM {table}
 WHERE srcid = ? AND destid = ? AND srcid <> destid AND mid > ?
 ORDER BY mid LIMIT ?)
ORDER BY mid LIMIT ?
