-- Settle: completes ("done"), releases ("free") or gives up ("dead"). Returns 1, or 0 if the key is no longer the owner's.
-- KEYS[1] webhook:{SOURCE}:KEY
-- ARGV owner, state, outcome, now (milliseconds since 1970)
local row = redis.call("HMGET", KEYS[1], "state", "owner", "keep_until")
if row[1] ~= "busy" or row[2] ~= ARGV[1] then
  return 0
end
redis.call("HSET", KEYS[1], "state", ARGV[2], "outcome", ARGV[3], "updated_at", ARGV[4])
if ARGV[2] == "dead" then
  redis.call("PERSIST", KEYS[1])
else
  -- A key past its window lives for a minute more, so that a slow caller can still count it when it cleans; the next claim takes it.
  redis.call("PEXPIRE", KEYS[1], string.format("%d", math.max(tonumber(row[3]) - tonumber(ARGV[4]) + 1, 60000)))
end
return 1
