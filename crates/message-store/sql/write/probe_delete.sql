DELETE FROM {table} WHERE sink = 'probe' AND topic = '' AND partition_no = 0
