-- The nonce of a rebuild and when its lease ends, out of the field `rebuilding`.
local function lease(rebuilding)
  local nonce, deadline = string.match(rebuilding, '^(.*):(%d+)$')
  return nonce, tonumber(deadline)
end

-- When a lease that begins now ends, as text without an exponent.
local function lease_end(lease_ms)
  return string.format('%.0f', now_ms() + tonumber(lease_ms))
end
