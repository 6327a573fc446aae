UPDATE {contact} SET {device}_read_n = {n}
WHERE uid = {uid} AND kind = 0 AND peer = {peer} AND {device}_read_mid = {mid} AND {device}_read_n IS NULL
