SELECT peer, mid FROM {table}
WHERE uid = {uid} AND kind = 1 AND ({keys})
