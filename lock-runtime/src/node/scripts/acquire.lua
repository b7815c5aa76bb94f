-- Redis before 7.0 has no SET with both NX and GET. Answers the owner who is there, or nil: granted.
-- KEYS[1] lock, ARGV[1] owner token, ARGV[2] TTL in milliseconds
local owner = redis.call('GET', KEYS[1])
if owner then
  return owner
end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return false
