-- Creates the state of an absent user, or takes over a rebuild whose lease has expired. ARGV: generation, expiry_ms, uid, nonce, lease_ms.
-- Returns {0, 0} begun, {1, milliseconds until another's lease expires}, {2, 0} complete already.
return with_valid_keys(function()
  local head = redis.call('HMGET', STATE, 'gen', 'rebuilding')

  if head[1] == ARGV[1] and not head[2] then
    redis.call('SREM', REQUESTS, ARGV[3])
    return { 2, 0 }
  elseif head[1] == ARGV[1] then
    local nonce, deadline = lease(head[2])
    local left = deadline - now_ms()
    -- It is this rebuild's own where a pipeline is sent again because its response was lost.
    if left > 0 and nonce ~= ARGV[4] then return { 1, left } end
  end

  -- What was applied under a former lease is in the rows that this rebuild waits for.
  drop()
  redis.call('HSET', STATE, 'gen', ARGV[1], 'rebuilding', ARGV[4] .. ':' .. lease_end(ARGV[5]))
  align_expiry(ARGV[2], false)
  create_built()
  return { 0, 0 }
end)
