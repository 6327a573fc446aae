SELECT c.lo, c.hi, c.chg, c.mid, c.uid, c.change_kind, c.ts, c.id, m.msg
FROM {table} AS c
LEFT JOIN {messages} AS m ON c.change_kind = 'edit' AND {is_of_editor} AND m.mid = c.mid AND m.state = 0
WHERE c.lo = ? AND c.hi = ? AND c.chg > ?
ORDER BY c.chg LIMIT ?
