SELECT {number} AS number, (SELECT COUNT(*) FROM (SELECT 1 FROM {table} WHERE pos >= {since} LIMIT {limit}) AS moved) AS moved
