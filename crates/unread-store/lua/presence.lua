-- Included in every script on a user's presence. KEYS: the user's connections, the leases of gateways.
-- A connection is a field `<lease>:<number>` with `<class> <connected_at> <written> <device>`, times in ms; `seen` is when the user was last seen.
local PRESENCE, LEASES = KEYS[1], KEYS[2]

-- The connections under live leases, the fields of all others, and when the user was last seen.
local function connections(now)
  local live, void, seen, alive = {}, {}, 0, {}
  local all = redis.pcall('HGETALL', PRESENCE)
  -- A key of another type was written by a person.
  if all.err then
    redis.call('UNLINK', PRESENCE)
    all = {}
  end
  for i = 1, #all, 2 do
    local field, value = all[i], all[i + 1]
    local lease = string.match(field, '^(.*):')
    local class, connected_at, written, device = string.match(value, '^(%a+) (%d+) (%d+) (.*)$')
    if field == 'seen' then
      seen = math.max(seen, tonumber(value) or 0)
    elseif not lease or not class then
      void[#void + 1] = field
    else
      if alive[lease] == nil then alive[lease] = is_alive(LEASES, lease, now) end
      if alive[lease] then
        live[#live + 1] = { field = field, class = class, connected_at = tonumber(connected_at), device = device }
      else
        void[#void + 1] = field
        seen = math.max(seen, tonumber(written))
      end
    end
  end
  return live, void, seen
end

-- Stores when the user was last seen, and lets the key expire after kept_ms.
local function keep(seen, kept_ms)
  if seen > 0 then redis.call('HSET', PRESENCE, 'seen', string.format('%.0f', seen)) end
  redis.call('PEXPIRE', PRESENCE, kept_ms)
end
