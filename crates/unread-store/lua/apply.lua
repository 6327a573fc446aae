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

  -- Merges what is told of the peers from ARGV[first] to ARGV[last] into a hash; nil where it has something unsound.
  local function merge_into(hash, first, last)
    local peers, states, fields = {}, {}, {}
    for i = first, last, 4 do peers[#peers + 1] = ARGV[i] end
    local held = redis.call('HMGET', hash, unpack(peers))
    for k, peer in ipairs(peers) do
      local i = first + 4 * (k - 1)
      local state = merge(held[k], ARGV[i + 1], ARGV[i + 2], ARGV[i + 3])
      if not state then return nil end
      states[k] = state
      fields[2 * k - 1], fields[2 * k] = peer, table.concat(state, ',')
    end
    redis.call('HSET', hash, unpack(fields))
    return peers, states
  end

  local function show(view, class, peers, states)
    local counts, read = {}, {}
    for k, peer in ipairs(peers) do
      local unread = shown(states[k], class)
      if unread then
        counts[#counts + 1], counts[#counts + 2] = peer, unread
      else
        read[#read + 1] = peer
      end
    end
    if #counts > 0 then redis.call('HSET', view, unpack(counts)) end
    if #read > 0 then redis.call('HDEL', view, unpack(read)) end
  end

  local beside = redis.call('EXISTS', BESIDE) == 1
  -- Many peers in a call cost little more than one, but Lua's stack takes no more than some thousand values.
  local step = 4 * 500
  for first = 6, #ARGV, step do
    local last = math.min(first + step - 1, #ARGV)
    local peers, states = merge_into(STATE, first, last)
    if not peers then return absent() end
    if beside and not merge_into(BESIDE, first, last) then
      redis.call('DEL', BESIDE)
      beside = false
    end
    if not rebuilding then
      for class, view in ipairs(VIEWS) do show(view, class, peers, states) end
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
