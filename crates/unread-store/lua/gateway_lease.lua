-- gateway_lease
-- The leases of gateways: a sorted set by when they end (ms). The name of one ends with `-<how long it lasts>`; that of an older program has none.
local LONGEST_LEASE_MS = 600000

-- A lease that would end later than one that begins now, and as much again, was begun by a clock that was ahead: its gateway would count for as long as that was.
local function is_alive(leases, lease, now)
  local ends = tonumber(redis.call('ZSCORE', leases, lease) or 0)
  local lasts = tonumber(string.match(lease, '%-(%d+)$')) or LONGEST_LEASE_MS
  return ends > now and ends <= now + 2 * lasts
end
