UPDATE {table} SET forgotten_below = GREATEST(forgotten_below, CASE partition_no {below} END)
WHERE sink = '{sink}' AND topic = '{topic}' AND partition_no IN ({partitions})
