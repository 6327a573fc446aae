-- Writes all marks with a new generation, unless all are there and of one generation. Answers the generation in force.
-- KEYS: every mark. ARGV: new generation, then per mark: offset, src_epoch, src_offset.
local found = redis.call('HGET', KEYS[1], 'generation')
for _, key in ipairs(KEYS) do
  if redis.call('HGET', key, 'generation') ~= found then found = false end
end
if found then return found end

for i, key in ipairs(KEYS) do
  local mark = i * 3 - 1
  redis.call('HSET', key, 'generation', ARGV[1],
    'offset', ARGV[mark], 'src_epoch', ARGV[mark + 1], 'src_offset', ARGV[mark + 2])
end
return ARGV[1]
