-- Returns when the user was last seen, or 0, and the classes of the connections.
local live, _, seen = connections(now_ms())
local answer = { seen }
for _, connection in ipairs(live) do answer[#answer + 1] = connection.class end
return answer
