-- Without FORCE INDEX the server would read the whole table if that looked cheaper than many ranges.
UPDATE {table} FORCE INDEX (inx_1) SET state = {state}, {emptied}
WHERE state = 0 AND {keys}
