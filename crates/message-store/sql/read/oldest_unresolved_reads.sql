SELECT partition_no, MIN(messages_offset) AS messages_offset
FROM {table}
WHERE sink = '{sink}'
GROUP BY partition_no
