DELETE FROM {table} WHERE sink = '{run}' AND topic = '{topic}' AND partition_no = 0
