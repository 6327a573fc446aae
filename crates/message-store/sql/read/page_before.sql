(SELECT {columns} FROM {table}
 WHERE srcid = ? AND destid = ? AND mid < ? AND mid > ?
 ORDER BY mid DESC LIMIT ?)
UNION ALL
(SELECT {columns} FROM {table}
 WHERE srcid = ? AND destid = ? AND srcid <> destid AND mid < ? AND mid > ?
 ORDER BY mid DESC LIMIT ?)
ORDER BY mid DESC LIMIT ?
