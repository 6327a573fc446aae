SELECT sink, topic, partition_no, next_offset, src_epoch, src_offset, forgotten_below FROM {table}
ORDER BY sink, topic, partition_no
