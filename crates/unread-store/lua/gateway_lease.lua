-- gateway_lease
-- The leases of gateways: a sorted set by when they end (ms). The name of a lease ends with `-<how long it lasts>`, unless an older program began the lease.
local LONGEST_LEASE_MS = 600000

-- A lease that ends later than twice its length from now was begun by a clock that was ahead: its gateway would count as alive for as long as the clock was
-- ahead.
local function is_alive(leases, lease, now)
  local ends = tonumber(redis.call('ZSCORE', leases, lease) or 0)
  local lasts = tonumber(string.match(lease, '%-(%d+)$')) or LONGEST_LEASE_MS
  return ends > now and ends <= now + 2 * lasts
end
