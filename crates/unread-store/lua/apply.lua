-- Merges one user's updates. ARGV: generation, expiry_ms, renew, invalidate, uid, then per peer: uid, n, pc_n, mobile_n.
-- Returns 0 absent (a rebuild is requested), 1 applied, 2 applied to a state that is being rebuilt.
return with_valid_keys(function()
  local function absent()
    drop()
    redis.call('SADD', REQUESTS, ARGV[5])
    return 0
  end

  -- Merges the updates into a hash. Returns its field `rebuilding`, and the fields that each view then shows and hides; nil if the hash has another
  -- generation or something invalid.
  local function merge_into(hash)
    local names, fields, shows, hides = { 'gen', 'rebuilding' }, {}, {}, {}
    for i = 6, #ARGV, 4 do names[#names + 1] = ARGV[i] end
    local stored = redis.call('HMGET', hash, unpack(names))
    if stored[1] ~= ARGV[1] then return nil end

    local function show(class, peer, unread)
      local changes = unread and shows or hides
      local of_class = changes[class]
      if not of_class then
        changes[class] = { peer, unread }
      else
        of_class[#of_class + 1] = peer
        of_class[#of_class + 1] = unread
      end
    end
    for k = 3, #names do
      local i = 6 + 4 * (k - 3)
      local n, pc_n, mobile_n = merge(stored[k], ARGV[i + 1], ARGV[i + 2], ARGV[i + 3])
      if not n then return nil end
      fields[#fields + 1], fields[#fields + 2] = names[k], pack(n, pc_n, mobile_n)
      show(1, names[k], shown(n, pc_n))
      show(2, names[k], shown(n, mobile_n))
    end
    if #fields > 0 then redis.call('HSET', hash, unpack(fields)) end
    return stored[2], shows, hides
  end

  if ARGV[4] == '1' then return absent() end
  local renew, new_in_views = ARGV[3] == '1', 0
  local rebuilding, shows, hides = merge_into(STATE)
  if rebuilding == nil then return absent() end
  for class = 1, rebuilding and 0 or 2 do
    if shows[class] then new_in_views = new_in_views + redis.call('HSET', VIEWS[class], unpack(shows[class])) end
    if hides[class] then redis.call('HDEL', VIEWS[class], unpack(hides[class])) end
  end
  if redis.call('EXISTS', SHADOW) == 1 and merge_into(SHADOW) == nil then redis.call('UNLINK', SHADOW) end
  -- Only a view with a new field may have just been created, without an expiry.
  if renew or new_in_views > 0 then align_expiry(ARGV[2], renew) end

  if not rebuilding then return 1 end
  -- The updates were merged even if the lease has expired: its holder may still complete the rebuild.
  local _, deadline = lease(rebuilding)
  if now_ms() < deadline then return 2 end
  redis.call('SADD', REQUESTS, ARGV[5])
  return 0
end)
