SELECT DISTINCT CAST(uid MOD 64 AS SIGNED) AS number
FROM {table}
WHERE sink = '{sink}' AND uid > 0
