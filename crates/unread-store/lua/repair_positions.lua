-- Writes positions that are missing. KEYS: positions. ARGV: per position: generation, offset, src_epoch, src_offset.
for i, key in ipairs(KEYS) do
  if redis.call('EXISTS', key) == 0 then
    local first = i * 4 - 3
    redis.call('HSET', key, 'generation', ARGV[first],
      'offset', ARGV[first + 1], 'src_epoch', ARGV[first + 2], 'src_offset', ARGV[first + 3])
  end
end
return 1
