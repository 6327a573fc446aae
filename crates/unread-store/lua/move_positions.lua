-- Compare and set. KEYS: positions. ARGV: per position the four fields that are expected, then the four new ones.
-- Returns 0 and changes nothing if any position is not the expected one, otherwise 1.
for i, key in ipairs(KEYS) do
  local found = redis.call('HMGET', key, 'generation', 'offset', 'src_epoch', 'src_offset')
  for field = 1, 4 do
    if found[field] ~= ARGV[(i - 1) * 8 + field] then return 0 end
  end
end

for i, key in ipairs(KEYS) do
  local to = (i - 1) * 8 + 5
  redis.call('HSET', key, 'generation', ARGV[to],
    'offset', ARGV[to + 1], 'src_epoch', ARGV[to + 2], 'src_offset', ARGV[to + 3])
end
return 1
