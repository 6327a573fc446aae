-- Splits the field `rebuilding` into the rebuild's nonce and the end of its lease.
local function lease(rebuilding)
  local nonce, deadline = string.match(rebuilding, '^(.*):(%d+)$')
  return nonce, tonumber(deadline)
end

-- The end of a lease that begins now, as text without an exponent.
local function lease_end(lease_ms)
  return string.format('%.0f', now_ms() + tonumber(lease_ms))
end
