SELECT partition_no, forgotten_below FROM {table}
WHERE sink = ? AND topic = ? AND forgotten_below > 0
