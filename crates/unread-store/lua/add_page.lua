-- Adds contact rows to the built state; the last ones are for complete_rebuild.lua. KEYS and ARGV: see full_state.lua.
-- Returns 1, or 0 where the rebuild has lost its lease or the pages before.
return with_valid_keys(function()
  if not has_lease() then return 0 end
  if not add_rows() then
    give_up()
    return 0
  end
  -- Whatever becomes of this process, they do not stay for longer than the state.
  local at = redis.call('PEXPIRETIME', STATE)
  if at < 0 then at = now_ms() + tonumber(ARGV[2]) end
  for _, key in ipairs({ BUILT, BUILT_VIEWS[1], BUILT_VIEWS[2] }) do redis.call('PEXPIREAT', key, at) end
  return 1
end)
