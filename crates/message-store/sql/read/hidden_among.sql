SELECT mid FROM {table}
WHERE uid = {uid} AND kind = {kind} AND peer = {peer} AND mid IN ({mids})
