SELECT uid, nick, avatar, extra, ts, pos FROM {table}
WHERE uid > {uid} ORDER BY uid LIMIT {limit}
