-- Included in every script on a user's keys: state, pc view, mobile view, set of rebuild requests, shadow state.
-- uids and ordinals stay text; ordinals are below 2^53, so tonumber keeps them exact. Each function here is created again
-- by every call, so scripts include only the files that they use.
local STATE, REQUESTS, SHADOW = KEYS[1], KEYS[4], KEYS[5]
local VIEWS = { KEYS[2], KEYS[3] }

-- UNLINK frees the memory of a large key in the background.
local function drop()
  redis.call('UNLINK', STATE, VIEWS[1], VIEWS[2], SHADOW)
end

-- One absolute expiry on all three keys. A view that was just created has none and gets the state's.
local function align_expiry(expiry_ms, renew)
  local at = redis.call('PEXPIRETIME', STATE)
  if renew or at < 0 then at = now_ms() + tonumber(expiry_ms) end
  for _, key in ipairs({ STATE, VIEWS[1], VIEWS[2] }) do
    if redis.call('PEXPIRETIME', key) ~= at then redis.call('PEXPIREAT', key, at) end
  end
end

-- Runs a step on the user's keys. A key of another type was written by a person and would fail every batch that touches
-- the user: the keys are dropped, and the step finds an absent user.
local function with_valid_keys(step)
  local ok, result = pcall(step)
  if ok then return result end
  local failure = type(result) == 'table' and result or redis.error_reply(result)
  if not string.find(failure.err, '^WRONGTYPE') then return failure end
  drop()
  if redis.call('TYPE', REQUESTS).ok ~= 'set' then redis.call('DEL', REQUESTS) end
  return step()
end
