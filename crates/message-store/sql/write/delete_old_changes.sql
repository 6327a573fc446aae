DELETE FROM {table} WHERE ts < '{month}-01' LIMIT {limit}
