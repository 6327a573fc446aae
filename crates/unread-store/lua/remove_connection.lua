-- ARGV: lease, number, kept_ms. Returns 1 if the user is away now and was not before.
local removed = redis.call('HDEL', PRESENCE, ARGV[1] .. ':' .. ARGV[2])
if removed == 0 then return 0 end
local now = now_ms()
local live = connections(now)
keep(now, ARGV[3])
return #live == 0 and 1 or 0
