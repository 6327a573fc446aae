-- Merges one user's updates. ARGV: generation, expiry_ms, renew, forget, uid, then per peer: uid, n, pc_n, mobile_n.
-- Answers 0 absent (a rebuild is wanted), 1 applied, 2 applied to a state that is being rebuilt.
return on_sound_keys(function()
  local renew, rebuilding, new_in_views = ARGV[3] == '1', nil, 0

  local function absent()
    drop()
    redis.call('SADD', WANTED, ARGV[5])
    return 0
  end

  local function show(view, peer, unread)
    if unread then
      new_in_views = new_in_views + redis.call('HSET', view, peer, unread)
    else
      redis.call('HDEL', view, peer)
    end
  end

  -- Merges what is told of the peers from ARGV[first] to ARGV[last] into a hash, and shows them if it is the state.
  -- False where the hash is of another generation or has something unsound.
  local function merge_into(hash, first, last)
    local asked, fields = { 'gen', 'rebuilding' }, {}
    for i = first, last, 4 do asked[#asked + 1] = ARGV[i] end
    local held = redis.call('HMGET', hash, unpack(asked))
    if held[1] ~= ARGV[1] then return false end
    if hash == STATE then rebuilding = held[2] end

    for k = 3, #asked do
      local i = first + 4 * (k - 3)
      local n, pc_n, mobile_n = merge(held[k], ARGV[i + 1], ARGV[i + 2], ARGV[i + 3])
      if not n then return false end
      fields[#fields + 1], fields[#fields + 2] = asked[k], pack(n, pc_n, mobile_n)
      if hash == STATE and not rebuilding then
        show(VIEWS[1], asked[k], shown(n, pc_n))
        show(VIEWS[2], asked[k], shown(n, mobile_n))
      end
    end
    if #fields > 0 then redis.call('HSET', hash, unpack(fields)) end
    return true
  end

  if ARGV[4] == '1' then return absent() end
  local beside = redis.call('EXISTS', BESIDE) == 1
  -- Many peers in a call cost little more than one, but Lua's stack takes no more than some thousand values.
  local step = 4 * 500
  for first = 6, math.max(6, #ARGV), step do
    local last = math.min(first + step - 1, #ARGV)
    if not merge_into(STATE, first, last) then return absent() end
    if beside and not merge_into(BESIDE, first, last) then
      redis.call('DEL', BESIDE)
      beside = false
    end
  end
  -- Only a view with a new field may have been made anew, without an expiry.
  if renew or new_in_views > 0 then align_expiry(ARGV[2], renew) end

  if not rebuilding then return 1 end
  -- Even without a live lease the updates were merged: its holder may yet complete it.
  local _, deadline = lease(rebuilding)
  if now_ms() < deadline then return 2 end
  redis.call('SADD', WANTED, ARGV[5])
  return 0
end)
