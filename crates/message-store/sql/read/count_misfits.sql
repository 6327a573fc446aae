SELECT COUNT(*) AS misfits FROM {table}
WHERE {column} <> {right}
