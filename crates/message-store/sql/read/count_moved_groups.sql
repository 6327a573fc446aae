SELECT {partition} AS partition_no, COUNT(*) AS moved
FROM (SELECT 1 FROM {table} WHERE pos >= {since} LIMIT {limit}) AS moved
HAVING COUNT(*) > 0
