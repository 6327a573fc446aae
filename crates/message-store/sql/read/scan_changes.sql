SELECT lo, hi, chg, mid, uid, change_kind, ts, id, NULL AS msg FROM {table}
WHERE (lo = {lo} AND hi = {hi} AND chg > {chg}) OR (lo = {lo} AND hi > {hi}) OR lo > {lo}
ORDER BY lo, hi, chg LIMIT {limit}
