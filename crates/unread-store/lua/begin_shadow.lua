-- Creates a shadow of a complete state. ARGV: generation, expiry_ms, uid, nonce, lease_ms.
-- Returns 1 begun, 0 if the state is not complete: such a state is rebuilt in place.
return with_valid_keys(function()
  local head = redis.call('HMGET', STATE, 'gen', 'rebuilding')
  if head[1] ~= ARGV[1] or head[2] then return 0 end

  -- An earlier rebuild that goes on finds another nonce in the new shadow.
  redis.call('UNLINK', SHADOW)
  redis.call('HSET', SHADOW, 'gen', ARGV[1], 'rebuilding', ARGV[4] .. ':' .. lease_end(ARGV[5]))
  redis.call('PEXPIRE', SHADOW, ARGV[5])
  create_built()
  return 1
end)
