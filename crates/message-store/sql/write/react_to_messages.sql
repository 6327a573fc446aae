UPDATE {table} FORCE INDEX (inx_1) SET reactions = JSON_MERGE_PATCH(COALESCE(reactions, '{}'), CASE {cases} END)
WHERE state = 0 AND {keys}
