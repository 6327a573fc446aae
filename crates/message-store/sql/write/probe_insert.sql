INSERT INTO {table} (sink, topic, partition_no, next_offset, src_epoch, src_offset)
VALUES ('probe', '', 0, 0, 0, 0)
ON DUPLICATE KEY UPDATE next_offset = next_offset + 1
