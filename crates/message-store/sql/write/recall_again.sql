UPDATE {messages} AS m
JOIN {changes} AS c ON {is_same_conversation} AND c.mid = m.mid AND c.change_kind IN ('recall', 'delete')
SET m.state = IF(c.change_kind = 'recall', 1, 2), m.msg = '', m.edited_ts = NULL
WHERE m.id IN ({ids}) AND m.state = 0
