-- Returns the state's fields, or only their number where they are more than a script may return. Views without a state are removed.
-- ARGV: expiry_ms, renew, the most fields.
return with_valid_keys(function()
  local size = redis.call('HLEN', STATE)
  if size == 0 then
    drop()
  elseif ARGV[2] == '1' then
    align_expiry(ARGV[1], true)
  end
  if size > tonumber(ARGV[3]) then return size end
  return redis.call('HGETALL', STATE)
end)
