-- Merges the contact rows into the shadow state, and replaces the complete state with it.
-- ARGV: generation, expiry_ms, uid, nonce, then per peer: uid, n, pc_n, mobile_n.
-- Returns 1 complete, 0 where the rebuild has lost its lease, or the rows and the updates since cannot be compared.
return with_valid_keys(function()
  local head = redis.call('HMGET', STATE, 'gen', 'rebuilding')
  local shadow = redis.call('HMGET', SHADOW, 'gen', 'rebuilding')
  if shadow[1] ~= ARGV[1] or not shadow[2] or lease(shadow[2]) ~= ARGV[4] then return 0 end
  local packed = head[1] == ARGV[1] and not head[2] and merge_rows(SHADOW, 5)
  redis.call('DEL', SHADOW)
  if not packed then return 0 end

  -- Peers that the shadow does not have are removed. `gen` stays, so the hash never becomes empty, which would lose its expiry.
  for _, uid in ipairs(redis.call('HKEYS', STATE)) do
    if uid ~= 'gen' and not packed[uid] then redis.call('HDEL', STATE, uid) end
  end
  show(packed)
  align_expiry(ARGV[2], false)
  return 1
end)
