SELECT partition_no, next_offset, src_epoch, src_offset FROM {table}
WHERE sink = '{live}' AND topic = '{topic}' AND partition_no IN ({partitions})
FOR UPDATE
