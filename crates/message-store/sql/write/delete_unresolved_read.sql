DELETE FROM {table}
WHERE sink = '{sink}' AND uid = {uid} AND peer = {peer} AND device = '{device}' AND mid = {mid}
