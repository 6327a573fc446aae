-- The server would read the whole table where that looks cheaper than so many ranges.
UPDATE {table} FORCE INDEX (inx_1) SET state = {state}, {emptied}
WHERE state = 0 AND {keys}
