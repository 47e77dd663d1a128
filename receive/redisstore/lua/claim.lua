-- Claim: asks for a key and returns its row after the step: state, owner, generation, lease_until, body_hash, outcome, deliveries.
-- The claim has won if the owner is the asking one. Nothing is returned if a replay finds no row.
-- KEYS[1] webhook:{SOURCE}:KEY
-- ARGV owner, body_hash, now, lease_until, keep_until (milliseconds since 1970), replay ("1": takes what is dead, and no other)
local key, owner, hash, now, lease, keep, replay = KEYS[1], ARGV[1], ARGV[2], tonumber(ARGV[3]), ARGV[4], ARGV[5], ARGV[6] == "1"
local row = redis.call("HMGET", key, "state", "lease_until", "keep_until")
local state = row[1]
local takes
if not state then
  takes = not replay
elseif state == "busy" then
  takes = tonumber(row[2]) < now
elseif state == "done" then
  takes = not replay and tonumber(row[3]) < now
elseif state == "free" then
  takes = not replay
else
  takes = replay
end
if takes then
  redis.call("HSET", key, "state", "busy", "owner", owner, "body_hash", hash, "lease_until", lease, "keep_until", keep, "updated_at", ARGV[3])
  redis.call("HSETNX", key, "outcome", "")
  redis.call("HINCRBY", key, "generation", 1)
  redis.call("HINCRBY", key, "deliveries", 1)
  -- no shorter than the lease; "%d" because a script's large numbers are written with an exponent
  redis.call("PEXPIRE", key, string.format("%d", math.max(tonumber(keep), tonumber(lease)) - now + 1))
elseif not state then
  return {}
end
return redis.call("HMGET", key, "state", "owner", "generation", "lease_until", "body_hash", "outcome", "deliveries")
