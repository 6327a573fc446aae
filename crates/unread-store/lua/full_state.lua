-- Merging and writing a whole state, which may have 100,000 peers.

-- One command for many fields. Lua passes at most some 8,000 arguments.
local function write(key, fields)
  for i = 1, #fields, 4000 do
    redis.call('HSET', key, unpack(fields, i, math.min(i + 3999, #fields)))
  end
end

-- The peers of a state that is being rebuilt, merged with the rows in ARGV from `first` on; nil where they cannot be compared.
local function merge_rows(key, first)
  local packed, stored = {}, redis.call('HGETALL', key)
  for i = 1, #stored, 2 do packed[stored[i]] = stored[i + 1] end
  packed['gen'], packed['rebuilding'] = nil, nil

  for i = first, #ARGV, 4 do
    local n, pc_n, mobile_n = merge(packed[ARGV[i]], ARGV[i + 1], ARGV[i + 2], ARGV[i + 3])
    if not n then return nil end
    packed[ARGV[i]] = pack(n, pc_n, mobile_n)
  end
  return packed
end

-- Writes packed peers into the state, and creates the views that follow from them.
local function show(packed)
  local state, views = {}, { {}, {} }
  for uid, text in pairs(packed) do
    table.insert(state, uid)
    table.insert(state, text)
    local n, pc_n, mobile_n = merge(text, '', '', '')
    for class, read_n in ipairs({ pc_n, mobile_n }) do
      local unread = shown(n, read_n)
      if unread then
        table.insert(views[class], uid)
        table.insert(views[class], unread)
      end
    end
  end

  redis.call('DEL', VIEWS[1], VIEWS[2])
  write(STATE, state)
  write(VIEWS[1], views[1])
  write(VIEWS[2], views[2])
end
