DELETE FROM {table} WHERE seen_at < '{time}' ORDER BY seen_at LIMIT {limit}
