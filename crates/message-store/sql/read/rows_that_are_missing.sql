SELECT CONCAT_WS(', ', {key}) AS row_key, COUNT(*) OVER () AS total
FROM {other} AS a LEFT JOIN {table} AS b ON {same_key}
WHERE {is_missing}
ORDER BY {order} LIMIT {limit}
