-- Moves some of the events since the beginning into the built state. If a later event of the same peer comes, the next call merges the two.
-- KEYS: see built.lua. ARGV: generation, expiry_ms, uid, nonce, cursor.
-- Returns the next call's cursor ('0' after the last), or nil if the rebuild has lost its lease or earlier pages, or if events cannot be compared.
return with_valid_keys(function()
  if not has_lease() then return false end
  local cursor, events = unpack(redis.call('HSCAN', LEASED, ARGV[5], 'COUNT', 500))
  local uids = merge_events(events)
  if not uids then
    give_up()
    return false
  end
  for from = 1, #uids, 1000 do redis.call('HDEL', LEASED, unpack(uids, from, math.min(from + 999, #uids))) end
  align_built_expiry()
  return cursor
end)
