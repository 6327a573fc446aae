SELECT lo, hi, chg, mid, uid, change_kind, ts, id, NULL AS msg
FROM {table}
WHERE lo = ? AND hi = ? AND seen_by = ? AND (chg > ? OR chg < ?)
ORDER BY chg DESC LIMIT ?
