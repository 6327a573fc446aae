-- The query that older clients had: both directions, a month back, above what was read, the newest of them. Ordered by mid, which is the
-- same order as by time within a conversation, and the index has it; a note to oneself has one direction only.
(SELECT {columns} FROM {table}
 WHERE srcid = ? AND destid = ? AND mid > ? AND ts > ?
 ORDER BY mid DESC LIMIT ?)
UNION ALL
(SELECT {columns} FROM {table}
 WHERE srcid = ? AND destid = ? AND srcid <> destid AND mid > ? AND ts > ?
 ORDER BY mid DESC LIMIT ?)
ORDER BY mid DESC LIMIT ?
