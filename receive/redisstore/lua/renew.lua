-- Renew: moves the end of the owner's lease. Returns 1, or 0 if the key is no longer the owner's.
-- KEYS[1] webhook:{SOURCE}:KEY
-- ARGV owner, now, lease_until (milliseconds since 1970)
local row = redis.call("HMGET", KEYS[1], "state", "owner", "keep_until")
if row[1] ~= "busy" or row[2] ~= ARGV[1] then
  return 0
end
redis.call("HSET", KEYS[1], "lease_until", ARGV[3], "updated_at", ARGV[2])
redis.call("PEXPIRE", KEYS[1], string.format("%d", math.max(tonumber(row[3]), tonumber(ARGV[3])) - tonumber(ARGV[2]) + 1))
return 1
