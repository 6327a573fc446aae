UPDATE {table} FORCE INDEX (inx_1) SET reactions = CASE {cases} END
WHERE state = 0 AND {keys}
