SELECT uid, device, class, name, token, seen_at FROM {table}
WHERE uid = ? AND device = ?
