-- Merges one user's updates. ARGV: generation, expiry_ms, renew, forget, uid, then per peer: uid, n, pc_n, mobile_n.
-- Answers 0 absent (a rebuild is wanted), 1 applied, 2 applied to a state that is being rebuilt.
return on_sound_keys(function()
  local function absent()
    drop()
    redis.call('SADD', WANTED, ARGV[5])
    return 0
  end

  -- Merges what is told of the peers from ARGV[first] to ARGV[last] into a hash. Answers what it says of its rebuild, and what
  -- each view then shows and does not; nil where the hash is of another generation or has something unsound.
  local function merge_into(hash, first, last)
    local asked, fields, shows, hides = { 'gen', 'rebuilding' }, {}, {}, {}
    for i = first, last, 4 do asked[#asked + 1] = ARGV[i] end
    local held = redis.call('HMGET', hash, unpack(asked))
    if held[1] ~= ARGV[1] then return nil end

    local function show(class, peer, unread)
      local of = unread and shows or hides
      local told = of[class]
      if not told then
        of[class] = { peer, unread }
      else
        told[#told + 1] = peer
        told[#told + 1] = unread
      end
    end
    for k = 3, #asked do
      local i = first + 4 * (k - 3)
      local n, pc_n, mobile_n = merge(held[k], ARGV[i + 1], ARGV[i + 2], ARGV[i + 3])
      if not n then return nil end
      fields[#fields + 1], fields[#fields + 2] = asked[k], pack(n, pc_n, mobile_n)
      show(1, asked[k], shown(n, pc_n))
      show(2, asked[k], shown(n, mobile_n))
    end
    if #fields > 0 then redis.call('HSET', hash, unpack(fields)) end
    return held[2], shows, hides
  end

  if ARGV[4] == '1' then return absent() end
  local renew, rebuilding, new_in_views = ARGV[3] == '1', nil, 0
  local beside = redis.call('EXISTS', BESIDE) == 1
  -- Many peers in a call cost little more than one, but Lua's stack takes no more than some thousand values.
  local step = 4 * 500
  for first = 6, math.max(6, #ARGV), step do
    local last = math.min(first + step - 1, #ARGV)
    local shows, hides
    rebuilding, shows, hides = merge_into(STATE, first, last)
    if rebuilding == nil then return absent() end
    for class = 1, rebuilding and 0 or 2 do
      if shows[class] then new_in_views = new_in_views + redis.call('HSET', VIEWS[class], unpack(shows[class])) end
      if hides[class] then redis.call('HDEL', VIEWS[class], unpack(hides[class])) end
    end
    if beside and merge_into(BESIDE, first, last) == nil then
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
