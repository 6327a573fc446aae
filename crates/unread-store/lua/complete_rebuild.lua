-- Adds the last contact rows and the last events since the beginning, and puts the built state and views in place of the user's keys, which
-- takes the same time for any number of peers. KEYS: see built.lua. ARGV: see full_state.lua.
-- Returns 1 complete, 0 if the rebuild has lost its lease, or if the rows and the events since cannot be compared, 2 if nothing is changed because these rows
-- and events are more than 500: they are added in pages first.
return with_valid_keys(function()
  if not has_lease() then return 0 end
  -- Two fields of the hash are not peers: `gen` and `rebuilding`.
  if (#ARGV - 4) / 4 + redis.call('HLEN', LEASED) - 2 > 500 then return 2 end
  local head = redis.call('HMGET', STATE, 'gen', 'rebuilding')
  local replaces = LEASED == STATE or (head[1] == ARGV[1] and not head[2])
  if not (replaces and merge_peers(ARGV, 5) and merge_events(redis.call('HGETALL', LEASED))) then
    give_up()
    return 0
  end

  local at = redis.call('PEXPIRETIME', STATE)
  if at < 0 then at = now_ms() + tonumber(ARGV[2]) end
  drop()
  -- `gen` stays, so the hash never becomes empty, which would lose its expiry.
  redis.call('HDEL', BUILT, 'rebuilding')
  redis.call('RENAME', BUILT, STATE)
  for class = 1, 2 do
    if redis.call('EXISTS', BUILT_VIEWS[class]) == 1 then redis.call('RENAME', BUILT_VIEWS[class], VIEWS[class]) end
  end
  redis.call('PEXPIREAT', STATE, at)
  align_expiry(ARGV[2], false)
  redis.call('SREM', REQUESTS, ARGV[3])
  return 1
end)
