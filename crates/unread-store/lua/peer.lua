-- A peer in the state is the text "n,pc_n,mobile_n": ordinals of the newest message and of the last one read per class,
-- '?' where what was read is unknown.

-- The larger of what is held and what is told ('' = not told). Between an unknown and a number there is no larger: nil.
local function larger(held, told)
  if told == '' or told == held then return held end
  if held == '?' then return nil end
  if told == '?' then return held == '0' and '?' or nil end
  return tonumber(told) > tonumber(held) and told or held
end

-- Merges what is told into a packed peer (nil or false: a new one). Its three parts, or nil where they cannot be compared.
local function merge(packed, n, pc_n, mobile_n)
  local held_n, held_pc, held_mobile = string.match(packed or '0,0,0', '^(%d+),([%d?]+),([%d?]+)$')
  -- A hand has been at it. It is rebuilt rather than in the way of every batch.
  if not held_n then return nil end
  local pc, mobile = larger(held_pc, pc_n), larger(held_mobile, mobile_n)
  if not (pc and mobile) then return nil end
  return larger(held_n, n), pc, mobile
end

local function pack(n, pc_n, mobile_n)
  return n .. ',' .. pc_n .. ',' .. mobile_n
end

-- What a view shows of a peer: its unread messages, nil for none and for unknown.
local function shown(n, read_n)
  if read_n == '?' then return nil end
  local unread = tonumber(n) - tonumber(read_n)
  return unread > 0 and unread or nil
end
