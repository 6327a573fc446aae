SELECT CONCAT_WS(', ', {key}) AS row_key, IF({is_missing}, NULL, CONCAT_WS(', ', {fields})) AS fields, COUNT(*) OVER () AS total
FROM {table} AS a LEFT JOIN {other} AS b ON {same_key}
WHERE {is_missing} OR NOT ({same_fields})
ORDER BY {order} LIMIT {limit}
