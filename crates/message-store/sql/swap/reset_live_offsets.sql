-- Sets back the live offsets that are ahead of those of the tables that were switched in.
UPDATE {table} AS live
JOIN {table} AS built ON built.topic = live.topic AND built.partition_no = live.partition_no
SET live.next_offset = built.next_offset, live.src_epoch = built.src_epoch, live.src_offset = built.src_offset,
    live.forgotten_below = LEAST(live.forgotten_below, built.next_offset)
WHERE live.sink = '{live}' AND built.sink = '{built}' AND live.topic = '{topic}'
    AND live.partition_no IN ({partitions}) AND live.next_offset > built.next_offset
