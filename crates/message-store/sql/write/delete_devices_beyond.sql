DELETE FROM {table}
WHERE uid = {uid}
    AND device NOT IN (SELECT device FROM (SELECT device FROM {table} WHERE uid = {uid} ORDER BY seen_at DESC, device LIMIT {kept}) AS newest)
