UPDATE {messages} AS m
JOIN {changes} AS c ON {is_same_conversation} AND c.mid = m.mid AND c.change_kind IN ('recall', 'delete')
SET state = IF(c.change_kind = 'recall', 1, 2), {emptied}
WHERE m.id IN ({ids}) AND state = 0
