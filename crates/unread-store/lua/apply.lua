-- Merges one user's updates. ARGV: generation, expiry_ms, renew, forget, uid, then per peer: uid, n, pc_n, mobile_n.
-- Answers 0 absent (a rebuild is wanted), 1 applied, 2 applied to a state that is being rebuilt.
return on_sound_keys(function()
  local function absent()
    drop()
    redis.call('SADD', WANTED, ARGV[5])
    return 0
  end

  local head = redis.call('HMGET', STATE, 'gen', 'rebuilding')
  local rebuilding = head[2]
  if head[1] ~= ARGV[1] or ARGV[4] == '1' then return absent() end

  local beside = redis.call('EXISTS', BESIDE) == 1
  for i = 6, #ARGV, 4 do
    local peer = merge(redis.call('HGET', STATE, ARGV[i]), ARGV[i + 1], ARGV[i + 2], ARGV[i + 3])
    if not peer then return absent() end
    redis.call('HSET', STATE, ARGV[i], table.concat(peer, ','))
    if beside then
      local built = merge(redis.call('HGET', BESIDE, ARGV[i]), ARGV[i + 1], ARGV[i + 2], ARGV[i + 3])
      beside = built ~= nil
      if beside then redis.call('HSET', BESIDE, ARGV[i], table.concat(built, ',')) else redis.call('DEL', BESIDE) end
    end
    if not rebuilding then
      for class, view in ipairs(VIEWS) do
        local unread = shown(peer, class)
        if unread then redis.call('HSET', view, ARGV[i], unread) else redis.call('HDEL', view, ARGV[i]) end
      end
    end
  end
  align_expiry(ARGV[2], ARGV[3] == '1')

  if not rebuilding then return 1 end
  -- Even without a live lease the updates were merged: its holder may yet complete it.
  local _, deadline = lease(rebuilding)
  if now_ms() < deadline then return 2 end
  redis.call('SADD', WANTED, ARGV[5])
  return 0
end)
