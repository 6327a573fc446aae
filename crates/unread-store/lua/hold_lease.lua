-- hold_lease
-- The lease of a gateway. KEYS: the leases. ARGV: the lease, how long it lasts (ms), 1 if it begins.
-- Returns 1, or 0 if the lease has ended: what was written under it is void, and it does not begin again.
local LEASES = KEYS[1]
local now = now_ms()
for _, lease in ipairs(redis.call('ZRANGE', LEASES, 0, -1)) do
  if not is_alive(LEASES, lease, now) then redis.call('ZREM', LEASES, lease) end
end
if ARGV[3] ~= '1' and not redis.call('ZSCORE', LEASES, ARGV[1]) then return 0 end
redis.call('ZADD', LEASES, string.format('%.0f', now + tonumber(ARGV[2])), ARGV[1])
return 1
