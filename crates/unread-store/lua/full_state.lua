-- Building a whole state, which may have 100,000 peers, in pages beside the keys that readers see.
-- KEYS behind those of user.lua: the hash that takes the events since the beginning (the state or its shadow), then the state and the two
-- views that are built. ARGV: generation, expiry_ms, uid, nonce, whether it is the first page, then per peer: uid, n, pc_n, mobile_n.
local LEASED, BUILT, BUILT_VIEWS = KEYS[6], KEYS[7], { KEYS[8], KEYS[9] }

local function has_lease()
  local head = redis.call('HMGET', LEASED, 'gen', 'rebuilding')
  return head[1] == ARGV[1] and head[2] and lease(head[2]) == ARGV[4]
end

-- Sets peers in the built state and its views: from `first` on per peer: uid, n, pc_n, mobile_n. Some hundred at a time, since Lua's
-- stack takes no more than some thousand values.
local function set_peers(peers, first)
  for from = first, #peers, 2000 do
    local state, shows, hides = {}, { {}, {} }, { {}, {} }
    for i = from, math.min(from + 1999, #peers), 4 do
      local uid, n = peers[i], peers[i + 1]
      state[#state + 1], state[#state + 2] = uid, pack(n, peers[i + 2], peers[i + 3])
      for class = 1, 2 do
        local unread = shown(n, peers[i + 1 + class])
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
end

-- Adds a page of rows. Returns false where the pages before it are gone.
local function add_rows()
  if ARGV[5] == '1' then
    redis.call('UNLINK', BUILT, BUILT_VIEWS[1], BUILT_VIEWS[2])
    redis.call('HSET', BUILT, 'gen', ARGV[1], 'rebuilding', ARGV[4])
  elseif redis.call('HGET', BUILT, 'rebuilding') ~= ARGV[4] then
    return false
  end
  set_peers(ARGV, 6)
  return true
end

-- Merges the events since the beginning with the rows. Returns false where they cannot be compared.
local function add_events()
  local events, uids, merged = redis.call('HGETALL', LEASED), {}, {}
  local of_uid = {}
  for i = 1, #events, 2 do
    if events[i] ~= 'gen' and events[i] ~= 'rebuilding' then
      uids[#uids + 1], of_uid[events[i]] = events[i], events[i + 1]
    end
  end
  for from = 1, #uids, 500 do
    local to = math.min(from + 499, #uids)
    local rows = redis.call('HMGET', BUILT, unpack(uids, from, to))
    for i = from, to do
      local n, pc_n, mobile_n = '', '', ''
      if rows[i - from + 1] then n, pc_n, mobile_n = split(rows[i - from + 1]) end
      n, pc_n, mobile_n = merge(of_uid[uids[i]], n, pc_n, mobile_n)
      if not n then return false end
      for _, value in ipairs({ uids[i], n, pc_n, mobile_n }) do merged[#merged + 1] = value end
    end
  end
  set_peers(merged, 1)
  return true
end

-- Begins again: a read position with its ordinal came after one without, or a part is lost. The rows that the next rebuild reads
-- contain all of it. A complete state stays as it is.
local function give_up()
  redis.call('UNLINK', BUILT, BUILT_VIEWS[1], BUILT_VIEWS[2])
  if LEASED == SHADOW then return redis.call('UNLINK', SHADOW) end
  drop()
  redis.call('SADD', REQUESTS, ARGV[3])
end
