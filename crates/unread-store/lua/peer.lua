-- A peer in the state is the text "n,pc_n,mobile_n": the ordinals of the newest message and of the last one read per class, '?' if it is unknown what was
-- read.

-- The larger of the stored and the new ordinal ('' = no new one). An unknown and a number cannot be compared: nil.
local function larger(stored, new)
  if new == '' or new == stored then return stored end
  if stored == '?' then return nil end
  if new == '?' then return stored == '0' and '?' or nil end
  return tonumber(new) > tonumber(stored) and new or stored
end

-- The three parts of a packed peer; nil if the text is not a packed peer.
local function split(packed)
  return string.match(packed, '^(%d+),([%d?]+),([%d?]+)$')
end

-- Merges new ordinals into a packed peer (nil or false: a new peer). Returns its three parts, or nil if they cannot be compared.
local function merge(packed, n, pc_n, mobile_n)
  local stored_n, stored_pc, stored_mobile = split(packed or '0,0,0')
  -- A person has changed the peer. The user is rebuilt, so that this peer does not fail every batch.
  if not stored_n then return nil end
  local pc, mobile = larger(stored_pc, pc_n), larger(stored_mobile, mobile_n)
  if not (pc and mobile) then return nil end
  return larger(stored_n, n), pc, mobile
end

local function pack(n, pc_n, mobile_n)
  return n .. ',' .. pc_n .. ',' .. mobile_n
end

-- What a view shows of a peer: the number of unread messages; nil if it is zero or unknown.
local function shown(n, read_n)
  if read_n == '?' then return nil end
  local unread = tonumber(n) - tonumber(read_n)
  return unread > 0 and unread or nil
end
