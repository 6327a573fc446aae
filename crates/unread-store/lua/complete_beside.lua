-- Merges what the contact rows say into the state beside, and puts that into the place of the complete one.
-- ARGV: generation, expiry_ms, uid, nonce, then per peer: uid, n, pc_n, mobile_n.
-- Answers 1 complete, 0 where the rebuild is no longer this one's, or the rows and the updates since cannot be compared.
return on_sound_keys(function()
  local head = redis.call('HMGET', STATE, 'gen', 'rebuilding')
  local own = redis.call('HMGET', BESIDE, 'gen', 'rebuilding')
  if own[1] ~= ARGV[1] or not own[2] or lease(own[2]) ~= ARGV[4] then return 0 end
  local packed = head[1] == ARGV[1] and not head[2] and merge_rows(BESIDE, 5)
  redis.call('DEL', BESIDE)
  if not packed then return 0 end

  -- Peers that nobody knows go. `gen` stays, so the hash never becomes empty, which would lose its expiry.
  for _, uid in ipairs(redis.call('HKEYS', STATE)) do
    if uid ~= 'gen' and not packed[uid] then redis.call('HDEL', STATE, uid) end
  end
  show(packed)
  align_expiry(ARGV[2], false)
  return 1
end)
