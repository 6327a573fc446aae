-- Lengthens the lease of a rebuild that is still this one's. ARGV: generation, expiry_ms, uid, nonce, lease_ms.
-- Never makes a state: what was applied while there was none is missing from the rows that its holder will read.
return on_sound_keys(function()
  local head = redis.call('HMGET', STATE, 'gen', 'rebuilding')
  if head[1] ~= ARGV[1] or not head[2] or lease(head[2]) ~= ARGV[4] then return 0 end
  redis.call('HSET', STATE, 'rebuilding', ARGV[4] .. ':' .. lease_end(ARGV[5]))
  return 1
end)
