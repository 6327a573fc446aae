-- Adds contact rows to the built state; complete_rebuild.lua adds the last ones. KEYS: see built.lua. ARGV: see full_state.lua.
-- Returns 1, or 0 if the rebuild has lost its lease or earlier pages, or if rows cannot be compared.
return with_valid_keys(function()
  if not has_lease() then return 0 end
  if not merge_peers(ARGV, 5) then
    give_up()
    return 0
  end
  align_built_expiry()
  return 1
end)
