-- Caches a profile (PROTOCOL K6). KEYS: the hash, the position of its partition. ARGV: the offset below which the profile reflects all events, pos, ts,
-- expiry_ms, then its fields and their values. Returns 1, or 0 if the hash is as new, or if this profile could be older than what was applied.
local PROFILE, POSITION = KEYS[1], KEYS[2]
local position = redis.call('HMGET', POSITION, 'generation', 'offset')
if not position[1] then return 0 end

-- A key of another type, or without a pos, was written by a person.
local found = redis.pcall('HMGET', PROFILE, 'gen', 'pos')
if found.err or not tonumber(found[2]) then found = {} end
if found[1] == position[1] then
  if tonumber(found[2]) >= tonumber(ARGV[2]) then return 0 end
elseif tonumber(position[2]) > tonumber(ARGV[1]) then
  return 0
end

redis.call('UNLINK', PROFILE)
redis.call('HSET', PROFILE, 'gen', position[1], 'pos', ARGV[2], 'ts', ARGV[3], unpack(ARGV, 5))
redis.call('PEXPIRE', PROFILE, ARGV[4])
return 1
