(
    SELECT {number} AS number, g.gid, g.last_ts,
        m.uid IS NOT NULL AND g.owner > 0 AND g.last_mid > IF(g.whole_history, 0, m.join_mid) AS is_listed
    FROM (
        SELECT gid, last_ts, owner, last_mid, whole_history
        FROM {table}
        WHERE last_ts < '{ts}' OR (last_ts = '{ts}' AND gid <= {gid})
        ORDER BY last_ts DESC, gid DESC LIMIT {limit}
    ) AS g
    LEFT JOIN {members} AS m ON m.gid = g.gid AND m.uid = {uid} AND m.role > 0
)
