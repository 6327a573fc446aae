-- In front of every script that changes a user's keys: state, pc view, mobile view, set of wanted uids, state built beside.
-- uids and ordinals stay text; ordinals are below 2^53, so tonumber keeps them exact. Each function here is made anew
-- by every call, so scripts take only the files that they use.
local STATE, WANTED, BESIDE = KEYS[1], KEYS[4], KEYS[5]
local VIEWS = { KEYS[2], KEYS[3] }

local function now_ms()
  local time = redis.call('TIME')
  return time[1] * 1000 + math.floor(time[2] / 1000)
end

local function drop()
  redis.call('DEL', STATE, VIEWS[1], VIEWS[2], BESIDE)
end

-- One absolute expiry on all three keys. A view that is made anew has none and takes the state's.
local function align_expiry(expiry_ms, renew)
  local at = redis.call('PEXPIRETIME', STATE)
  if renew or at < 0 then at = now_ms() + tonumber(expiry_ms) end
  for _, key in ipairs({ STATE, VIEWS[1], VIEWS[2] }) do
    if redis.call('PEXPIRETIME', key) ~= at then redis.call('PEXPIREAT', key, at) end
  end
end

-- Runs a step on the user's keys. A key of another type was put there by hand, and would fail every batch that touches
-- the user: all three are dropped, and the step finds an absent user.
local function on_sound_keys(step)
  local fine, answer = pcall(step)
  if fine then return answer end
  local refusal = type(answer) == 'table' and answer or redis.error_reply(answer)
  if not string.find(refusal.err, '^WRONGTYPE') then return refusal end
  drop()
  if redis.call('TYPE', WANTED).ok ~= 'set' then redis.call('DEL', WANTED) end
  return step()
end
