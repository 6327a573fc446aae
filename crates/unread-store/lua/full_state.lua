-- Building a whole state, which may have 100,000 peers, in pages beside the keys that readers see. Rows and events merge by maximum, so a
-- page may come again. ARGV: generation, expiry_ms, uid, nonce, then per row of a page: uid, n, pc_n, mobile_n.

local function has_lease()
  local head = redis.call('HMGET', LEASED, 'gen', 'rebuilding')
  return head[1] == ARGV[1] and head[2] and lease(head[2]) == ARGV[4]
end

-- Merges peers into the built state and its views: from `first` on per peer: uid, n, pc_n, mobile_n. Some hundred at a time, since Lua's
-- stack takes no more than some thousand values. Returns false where they cannot be compared, or what was built is gone.
local function merge_peers(peers, first)
  if redis.call('HGET', BUILT, 'rebuilding') ~= ARGV[4] then return false end
  for from = first, #peers, 2000 do
    local to, uids = math.min(from + 1999, #peers), {}
    for i = from, to, 4 do uids[#uids + 1] = peers[i] end
    local built = redis.call('HMGET', BUILT, unpack(uids))
    local state, shows, hides = {}, { {}, {} }, { {}, {} }
    for k, uid in ipairs(uids) do
      local i = from + 4 * (k - 1)
      local n, pc_n, mobile_n = merge(built[k], peers[i + 1], peers[i + 2], peers[i + 3])
      if not n then return false end
      state[#state + 1], state[#state + 2] = uid, pack(n, pc_n, mobile_n)
      for class, read_n in ipairs({ pc_n, mobile_n }) do
        local unread = shown(n, read_n)
        if unread then
          table.insert(shows[class], uid)
          table.insert(shows[class], unread)
        else
          table.insert(hides[class], uid)
        end
      end
    end
    redis.call('HSET', BUILT, unpack(state))
    for class = 1, 2 do
      if #shows[class] > 0 then redis.call('HSET', BUILT_VIEWS[class], unpack(shows[class])) end
      if #hides[class] > 0 then redis.call('HDEL', BUILT_VIEWS[class], unpack(hides[class])) end
    end
  end
  return true
end

-- Merges events since the beginning: fields and values of the hash that takes them. Returns their peers; nil if one is invalid or merge_peers fails.
local function merge_events(events)
  local uids, peers = {}, {}
  -- '0' means that no event read anything. It must not be compared with a row for which it is unknown what was read.
  local function read(n) return n ~= '0' and n or '' end
  for i = 1, #events, 2 do
    if events[i] ~= 'gen' and events[i] ~= 'rebuilding' then
      local n, pc_n, mobile_n = split(events[i + 1])
      if not n then return nil end
      uids[#uids + 1] = events[i]
      for _, value in ipairs({ events[i], n, read(pc_n), read(mobile_n) }) do peers[#peers + 1] = value end
    end
  end
  return merge_peers(peers, 1) and uids or nil
end

-- Whatever becomes of this process, what is built does not stay for longer than the state.
local function align_built_expiry()
  local at = redis.call('PEXPIRETIME', STATE)
  if at < 0 then at = now_ms() + tonumber(ARGV[2]) end
  for _, key in ipairs({ BUILT, BUILT_VIEWS[1], BUILT_VIEWS[2] }) do redis.call('PEXPIREAT', key, at) end
end

-- Ends this rebuild: a read position with its ordinal came after one without, or a part is lost. The rows that the next rebuild reads contain all of it. A
-- complete state stays as it is. If there is none, the next rebuild is requested.
local function give_up()
  redis.call('UNLINK', BUILT, BUILT_VIEWS[1], BUILT_VIEWS[2])
  if LEASED == SHADOW then return redis.call('UNLINK', SHADOW) end
  drop()
  redis.call('SADD', REQUESTS, ARGV[3])
end
