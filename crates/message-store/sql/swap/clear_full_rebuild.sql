DELETE FROM {table} WHERE sink = '{marker}' AND topic = '{topic}' AND partition_no = 0
