-- Adds the last contact rows and the events since the beginning, and puts the built state and views in place of the user's keys, which
-- takes the same time for any number of peers. KEYS and ARGV: see full_state.lua.
-- Returns 1 complete, 0 where the rebuild has lost its lease, or the rows and the events since cannot be compared.
return with_valid_keys(function()
  if not has_lease() then return 0 end
  local head = redis.call('HMGET', STATE, 'gen', 'rebuilding')
  local replaces = LEASED == STATE or (head[1] == ARGV[1] and not head[2])
  if not (replaces and add_rows() and add_events()) then
    give_up()
    return 0
  end

  local at = redis.call('PEXPIRETIME', STATE)
  drop()
  -- `gen` stays, so the hash never becomes empty, which would lose its expiry.
  redis.call('HDEL', BUILT, 'rebuilding')
  redis.call('RENAME', BUILT, STATE)
  for class = 1, 2 do
    if redis.call('EXISTS', BUILT_VIEWS[class]) == 1 then redis.call('RENAME', BUILT_VIEWS[class], VIEWS[class]) end
  end
  if at >= 0 then redis.call('PEXPIREAT', STATE, at) end
  align_expiry(ARGV[2], false)
  redis.call('SREM', REQUESTS, ARGV[3])
  return 1
end)
