SELECT partition_no, next_offset, src_epoch, src_offset FROM {table}
WHERE sink = ? AND topic = ?
