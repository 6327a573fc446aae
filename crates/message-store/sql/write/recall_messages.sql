-- The server would read the whole table where that looks cheaper than so many ranges.
UPDATE {table} FORCE INDEX (inx_1)
SET
    state = {state},
    msg = '',
    edited_ts = NULL
WHERE state = 0 AND {keys}
