-- Extends the lease of a rebuild that still has it. ARGV: generation, expiry_ms, uid, nonce, lease_ms.
-- Never creates a state: the rows that the holder will read may lack events that were applied while there was no state.
return with_valid_keys(function()
  local head = redis.call('HMGET', STATE, 'gen', 'rebuilding')
  if head[1] ~= ARGV[1] or not head[2] or lease(head[2]) ~= ARGV[4] then return 0 end
  redis.call('HSET', STATE, 'rebuilding', ARGV[4] .. ':' .. lease_end(ARGV[5]))
  return 1
end)
