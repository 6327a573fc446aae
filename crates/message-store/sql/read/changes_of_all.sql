SELECT lo, hi, chg, mid, uid, change_kind, ts, id, NULL AS msg
FROM {table}
WHERE lo = ? AND hi = ? AND chg > ?
ORDER BY chg LIMIT ?
