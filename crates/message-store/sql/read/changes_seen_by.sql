SELECT c.lo, c.hi, c.chg, c.mid, c.uid, c.change_kind, c.ts, c.id, m.msg
FROM (
    (
        SELECT lo, hi, chg, mid, uid, change_kind, ts, id
        FROM {table}
        WHERE lo = ? AND hi = ? AND seen_by = 0 AND chg > ?
        ORDER BY chg LIMIT ?
    )
    UNION ALL
    (
        SELECT lo, hi, chg, mid, uid, change_kind, ts, id
        FROM {table}
        WHERE lo = ? AND hi = ? AND seen_by = ? AND chg > ?
        ORDER BY chg LIMIT ?
    )
) AS c
LEFT JOIN {messages} AS m ON c.change_kind = 'edit' AND {is_of_editor} AND m.mid = c.mid AND m.state = 0
ORDER BY c.chg LIMIT ?
