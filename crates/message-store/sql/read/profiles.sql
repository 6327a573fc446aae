SELECT uid, nick, avatar, extra, ts, pos FROM {table} WHERE uid IN ({uids})
