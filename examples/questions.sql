-- The five questions of docs/ANALYSTS.md, for DuckDB, over an export into the folder lake.

-- 1. Messages a day
SELECT day, count(*) AS messages, count(DISTINCT srcid) AS senders, count(gid) AS in_groups
FROM 'lake/messages/*/*.parquet'
GROUP BY day ORDER BY day;

-- 2. Who answers within how long
WITH turns AS (
    SELECT srcid, destid, time,
        lag(srcid) OVER of_two AS before_by, lag(time) OVER of_two AS before_at
    FROM 'lake/messages/*/*.parquet'
    WHERE gid IS NULL AND srcid <> destid
    WINDOW of_two AS (PARTITION BY least(srcid, destid), greatest(srcid, destid) ORDER BY mid)
)
SELECT srcid AS uid, count(*) AS answers, round(median(epoch(time - before_at)), 3) AS median_s,
    round(quantile_cont(epoch(time - before_at), 0.9), 3) AS p90_s
FROM turns
WHERE before_by <> srcid
GROUP BY uid ORDER BY answers DESC, uid LIMIT 5;

-- 3. Unread at midnight, on pc
WITH midnight AS (SELECT max(day) AS end_of FROM 'lake/messages/*/*.parquet'),
reads AS (
    SELECT uid, peer, max(mid) AS read_mid
    FROM 'lake/read-positions/*/*.parquet'
    WHERE device = 'pc' AND gid IS NULL AND day <= (SELECT end_of FROM midnight)
    GROUP BY uid, peer
)
SELECT destid AS uid, count(*) AS unread
FROM 'lake/messages/*/*.parquet' AS m
LEFT JOIN reads ON reads.uid = m.destid AND reads.peer = m.srcid
WHERE m.gid IS NULL AND m.srcid <> m.destid AND m.mid > coalesce(read_mid, 0)
    AND m.day <= (SELECT end_of FROM midnight)
GROUP BY destid ORDER BY unread DESC, uid LIMIT 5;

-- 4. The busiest conversations and groups
SELECT coalesce('group ' || gid, least(srcid, destid) || ' and ' || greatest(srcid, destid)) AS conversation,
    count(*) AS messages
FROM 'lake/messages/*/*.parquet'
GROUP BY conversation ORDER BY messages DESC, conversation LIMIT 5;

-- 5. Recalls, edits, and records without an event
SELECT 'recalled' AS what, count(*) AS records FROM 'lake/messages/*/*.parquet' WHERE recalled IS NOT NULL
UNION ALL
SELECT 'edited', count(*) FROM 'lake/messages/*/*.parquet' WHERE edited
UNION ALL
SELECT 'without an event', sum(of_partition) FROM (
    SELECT max(inbound_offset) + 1 - count(*) FILTER (kind <> 'progress') AS of_partition
    FROM 'lake/events/*/*.parquet'
    WHERE inbound_epoch = 0
    GROUP BY partition
);
