DELETE FROM {table} WHERE sink = '{built}' AND topic = '{topic}' AND partition_no IN ({partitions})
