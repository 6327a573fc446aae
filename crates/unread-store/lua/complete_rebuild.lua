-- Merges what the contact rows say and shows the views. ARGV: generation, expiry_ms, uid, nonce, then per peer: uid, n, pc_n, mobile_n.
-- Answers 1 complete, 0 where the rebuild is no longer this one's, or the rows and the updates since cannot be compared.
return on_sound_keys(function()
  local head = redis.call('HMGET', STATE, 'gen', 'rebuilding')
  if head[1] ~= ARGV[1] or not head[2] or lease(head[2]) ~= ARGV[4] then return 0 end

  -- One command for many fields: some users have 100,000 peers. Lua passes at most some 8,000 arguments.
  local function write(key, fields)
    for i = 1, #fields, 4000 do
      redis.call('HSET', key, unpack(fields, i, math.min(i + 3999, #fields)))
    end
  end

  local packed, held = {}, redis.call('HGETALL', STATE)
  for i = 1, #held, 2 do packed[held[i]] = held[i + 1] end
  packed['gen'], packed['rebuilding'] = nil, nil

  for i = 5, #ARGV, 4 do
    local peer = merge(packed[ARGV[i]], ARGV[i + 1], ARGV[i + 2], ARGV[i + 3])
    if not peer then
      -- A read position with its ordinal came after one without. The next rebuild's barrier lies behind both.
      drop()
      redis.call('SADD', WANTED, ARGV[3])
      return 0
    end
    packed[ARGV[i]] = table.concat(peer, ',')
  end

  local state, views = {}, { {}, {} }
  for uid, text in pairs(packed) do
    table.insert(state, uid)
    table.insert(state, text)
    local peer = merge(text, '', '', '')
    for class, view in ipairs(views) do
      local unread = shown(peer, class)
      if unread then
        table.insert(view, uid)
        table.insert(view, unread)
      end
    end
  end

  redis.call('DEL', VIEWS[1], VIEWS[2])
  write(STATE, state)
  write(VIEWS[1], views[1])
  write(VIEWS[2], views[2])
  -- `gen` stays, so the hash never becomes empty, which would lose its expiry.
  redis.call('HDEL', STATE, 'rebuilding')
  redis.call('SREM', WANTED, ARGV[3])
  align_expiry(ARGV[2], false)
  return 1
end)
