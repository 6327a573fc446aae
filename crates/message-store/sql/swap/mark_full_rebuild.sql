INSERT IGNORE INTO {table} (sink, topic, partition_no, next_offset, src_epoch, src_offset)
VALUES ('{marker}', '{topic}', 0, 0, 0, 0)
