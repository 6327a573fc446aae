SELECT uid FROM {table} GROUP BY uid HAVING COUNT(*) > {kept}
