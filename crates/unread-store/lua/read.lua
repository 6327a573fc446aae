-- Returns the state's fields, or only their number if they are more than a script may return. Views without a state are removed. If the user reads, a state
-- with counts that a view lacks is removed, too: Redis evicts keys one by one, and the next event then makes a view with that event's count alone.
-- ARGV: expiry_ms, renew, the most fields.

local function has_lost_counts(fields)
  local counts = { 0, 0 }
  for i = 1, #fields, 2 do
    -- A state that is being rebuilt has no whole views.
    if fields[i] == 'rebuilding' then return false end
    local n, pc_n, mobile_n = split(fields[i + 1])
    if n then
      if shown(n, pc_n) then counts[1] = counts[1] + 1 end
      if shown(n, mobile_n) then counts[2] = counts[2] + 1 end
    end
  end
  return redis.call('HLEN', VIEWS[1]) ~= counts[1] or redis.call('HLEN', VIEWS[2]) ~= counts[2]
end

return with_valid_keys(function()
  local size = redis.call('HLEN', STATE)
  if size == 0 then
    drop()
  elseif ARGV[2] == '1' then
    align_expiry(ARGV[1], true)
  end
  if size > tonumber(ARGV[3]) then return size end
  local fields = redis.call('HGETALL', STATE)
  if ARGV[2] == '1' and has_lost_counts(fields) then
    drop()
    return {}
  end
  return fields
end)
