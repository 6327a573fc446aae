-- KEYS of every script on a rebuild, after those of user.lua: the hash that takes the events since the beginning of the rebuild (the state or its shadow),
-- then the state and the two views that are built.
local LEASED, BUILT, BUILT_VIEWS = KEYS[6], KEYS[7], { KEYS[8], KEYS[9] }

-- Creates the state that is built. A rebuild that later does not find its nonce there has lost this state, and the events that were moved to it.
local function create_built()
  redis.call('UNLINK', BUILT, BUILT_VIEWS[1], BUILT_VIEWS[2])
  redis.call('HSET', BUILT, 'gen', ARGV[1], 'rebuilding', ARGV[4])
  redis.call('PEXPIREAT', BUILT, redis.call('PEXPIRETIME', LEASED))
end
