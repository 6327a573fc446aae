SELECT uid, device, class, name, token, seen_at FROM {table}
WHERE uid = ?
ORDER BY seen_at DESC, device LIMIT ?
