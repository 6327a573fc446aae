-- Writes all positions with a new generation, unless all exist and have one generation. Returns the generation in force.
-- KEYS: all positions. ARGV: new generation, then per position: offset, src_epoch, src_offset.
local found = redis.call('HGET', KEYS[1], 'generation')
for _, key in ipairs(KEYS) do
  if redis.call('HGET', key, 'generation') ~= found then found = false end
end
if found then return found end

for i, key in ipairs(KEYS) do
  local first = i * 3 - 1
  redis.call('HSET', key, 'generation', ARGV[1],
    'offset', ARGV[first], 'src_epoch', ARGV[first + 1], 'src_offset', ARGV[first + 2])
end
return ARGV[1]
