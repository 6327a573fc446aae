-- Returns the state's fields. ARGV: expiry_ms, renew. Views without a state are removed.
return with_valid_keys(function()
  local fields = redis.call('HGETALL', STATE)
  if #fields == 0 then
    drop()
  elseif ARGV[2] == '1' then
    align_expiry(ARGV[1], true)
  end
  return fields
end)
