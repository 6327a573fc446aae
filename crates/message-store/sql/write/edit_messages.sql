UPDATE {table} FORCE INDEX (inx_1) SET msg = CASE {cases} END, edited_ts = CASE {cases} END
WHERE state = 0 AND {keys}
