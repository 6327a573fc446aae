SELECT DISTINCT uid
FROM {table}
WHERE sink = '{sink}' AND uid IN ({uids})
