-- Merges the contact rows into the state and writes the views. ARGV: generation, expiry_ms, uid, nonce, then per peer: uid, n, pc_n, mobile_n.
-- Returns 1 complete, 0 where the rebuild has lost its lease, or the rows and the updates since cannot be compared.
return with_valid_keys(function()
  local head = redis.call('HMGET', STATE, 'gen', 'rebuilding')
  if head[1] ~= ARGV[1] or not head[2] or lease(head[2]) ~= ARGV[4] then return 0 end

  local packed = merge_rows(STATE, 5)
  if not packed then
    -- A read position with its ordinal came after one without. The rows that the next rebuild reads contain both.
    drop()
    redis.call('SADD', REQUESTS, ARGV[3])
    return 0
  end

  show(packed)
  -- `gen` stays, so the hash never becomes empty, which would lose its expiry.
  redis.call('HDEL', STATE, 'rebuilding')
  redis.call('SREM', REQUESTS, ARGV[3])
  align_expiry(ARGV[2], false)
  return 1
end)
