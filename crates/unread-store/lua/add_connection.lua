-- ARGV: lease, number, class, device, when the connection was established ('' if Redis is to say so), how long ago that was, how many connections a class may
-- have, kept_ms. Returns {0} if the lease has ended; otherwise 1, when it was established, 1 if the user was away before, and the fields of connections that
-- are replaced.
local now = now_ms()
if not is_alive(LEASES, ARGV[1], now) then return { 0 } end
local live, void, seen = connections(now)
-- The connections of a lease that has ended never count again, since such a lease does not begin again.
for _, field in ipairs(void) do redis.call('HDEL', PRESENCE, field) end

local own = {
  field = ARGV[1] .. ':' .. ARGV[2], class = ARGV[3], device = ARGV[4],
  connected_at = tonumber(ARGV[5]) or now - tonumber(ARGV[6]),
}
local value = string.format('%s %.0f %.0f %s', own.class, own.connected_at, now, own.device)
redis.call('HSET', PRESENCE, own.field, value)
keep(seen, ARGV[8])

-- Of two connections of one device the earlier one is replaced; of a class with too many, the earliest ones. A time in the future was read from a clock that
-- was ahead: that of an earlier server, or this server's before it was set back. It counts as earlier than any other.
local function is_before(one, other)
  local is_ahead = one.connected_at > now
  if is_ahead ~= (other.connected_at > now) then return is_ahead end
  return one.connected_at < other.connected_at
end
local function is_first(one, other)
  return is_before(one, other) or not is_before(other, one) and one.field < other.field
end
local answer = { 1, own.connected_at, #live == 0 and 1 or 0 }
local class = { own }
for _, other in ipairs(live) do
  if other.field == own.field then
    -- The same connection, which is written again.
  elseif other.device == own.device then
    -- If both were established in the same millisecond, the connection that is written last is the later one.
    local is_late = is_before(own, other)
    answer[#answer + 1] = is_late and own.field or other.field
    if is_late then return answer end
  elseif other.class == own.class then
    class[#class + 1] = other
  end
end
table.sort(class, is_first)
for i = 1, #class - tonumber(ARGV[7]) do answer[#answer + 1] = class[i].field end
return answer
