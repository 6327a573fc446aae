SELECT sink, topic, partition_no, next_offset, src_epoch, src_offset FROM {table}
ORDER BY sink, topic, partition_no
