(
    SELECT gid, last_ts
    FROM {table} FORCE INDEX (inx_2)
    WHERE last_ts > '1970-01-01' AND (last_ts < '{ts}' OR (last_ts = '{ts}' AND gid <= {gid}))
    ORDER BY last_ts DESC, gid DESC LIMIT {limit}
)
