SELECT {columns} FROM {table}
WHERE uid = {uid} AND pos >= CAST(ELT(gid % 64 + 1, {since}) AS SIGNED)
LIMIT {limit}
