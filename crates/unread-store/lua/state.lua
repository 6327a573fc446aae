-- In front of every script that changes a user's keys: state, pc view, mobile view, set of wanted uids, state built beside.
-- A peer in the state is the text "n,pc_n,mobile_n": ordinals of the newest message and of the last one read per class,
-- '?' where what was read is unknown. uids and ordinals stay text; ordinals are below 2^53, so tonumber keeps them exact.
local STATE, WANTED, BESIDE = KEYS[1], KEYS[4], KEYS[5]
local VIEWS = { KEYS[2], KEYS[3] }

local function now_ms()
  local time = redis.call('TIME')
  return time[1] * 1000 + math.floor(time[2] / 1000)
end

local function drop()
  redis.call('DEL', STATE, VIEWS[1], VIEWS[2], BESIDE)
end

-- The larger of what is held and what is told ('' = not told). Between an unknown and a number there is no larger: nil.
local function larger(held, told)
  if told == '' or told == held then return held end
  if held == '?' then return nil end
  if told == '?' then return held == '0' and '?' or nil end
  return tonumber(told) > tonumber(held) and told or held
end

-- Merges what is told into a packed peer (nil or false: a new one). The three parts, or nil where they cannot be compared.
local function merge(packed, n, pc_n, mobile_n)
  local held_n, held_pc, held_mobile = string.match(packed or '0,0,0', '^(%d+),([%d?]+),([%d?]+)$')
  -- A hand has been at it. It is rebuilt rather than in the way of every batch.
  if not held_n then return nil end
  local pc, mobile = larger(held_pc, pc_n), larger(held_mobile, mobile_n)
  if not (pc and mobile) then return nil end
  return { larger(held_n, n), pc, mobile }
end

-- What a view shows of a peer: its unread messages, nil for none and for unknown.
local function shown(peer, class)
  local read = peer[class + 1]
  if read == '?' then return nil end
  local unread = tonumber(peer[1]) - tonumber(read)
  return unread > 0 and unread or nil
end

-- One absolute expiry on all three keys. A view that is made anew has none and takes the state's.
local function align_expiry(expiry_ms, renew)
  local at = redis.call('PEXPIRETIME', STATE)
  if renew or at < 0 then at = now_ms() + tonumber(expiry_ms) end
  for _, key in ipairs({ STATE, VIEWS[1], VIEWS[2] }) do
    if redis.call('PEXPIRETIME', key) ~= at then redis.call('PEXPIREAT', key, at) end
  end
end

-- One command for many fields: some users have 100,000 peers. Lua passes at most some 8,000 arguments.
local function write(key, fields)
  for i = 1, #fields, 4000 do
    redis.call('HSET', key, unpack(fields, i, math.min(i + 3999, #fields)))
  end
end

-- The peers of a state that is being built, with the rows in ARGV from `first` on merged in; nil where they cannot be compared.
local function merge_rows(key, first)
  local packed, held = {}, redis.call('HGETALL', key)
  for i = 1, #held, 2 do packed[held[i]] = held[i + 1] end
  packed['gen'], packed['rebuilding'] = nil, nil

  for i = first, #ARGV, 4 do
    local peer = merge(packed[ARGV[i]], ARGV[i + 1], ARGV[i + 2], ARGV[i + 3])
    if not peer then return nil end
    packed[ARGV[i]] = table.concat(peer, ',')
  end
  return packed
end

-- Writes packed peers into the state, and makes the views that follow from them.
local function show(packed)
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
end

-- The nonce of a rebuild and when its lease ends, out of the field `rebuilding`.
local function lease(rebuilding)
  local nonce, deadline = string.match(rebuilding, '^(.*):(%d+)$')
  return nonce, tonumber(deadline)
end

-- When a lease that begins now ends, as text without an exponent.
local function lease_end(lease_ms)
  return string.format('%.0f', now_ms() + tonumber(lease_ms))
end

-- Runs a step on the user's keys. A key of another type was put there by hand, and would fail every batch that touches
-- the user: all three are dropped, and the step finds an absent user.
local function on_sound_keys(step)
  local fine, answer = pcall(step)
  if fine then return answer end
  local refusal = type(answer) == 'table' and answer or redis.error_reply(answer)
  if not string.find(refusal.err, '^WRONGTYPE') then return refusal end
  drop()
  if redis.call('TYPE', WANTED).ok ~= 'set' then redis.call('DEL', WANTED) end
  return step()
end
