-- Begins a state that is built beside a complete one. ARGV: generation, expiry_ms, uid, nonce, lease_ms.
-- Answers 1 begun, 0 where there is no complete state: that is built in its own place.
return on_sound_keys(function()
  local head = redis.call('HMGET', STATE, 'gen', 'rebuilding')
  if head[1] ~= ARGV[1] or head[2] then return 0 end

  -- Whoever was at it before finds another nonce.
  redis.call('DEL', BESIDE)
  redis.call('HSET', BESIDE, 'gen', ARGV[1], 'rebuilding', ARGV[4] .. ':' .. lease_end(ARGV[5]))
  redis.call('PEXPIRE', BESIDE, ARGV[5])
  return 1
end)
