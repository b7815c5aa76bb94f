-- Makes the lock live on, if it is the caller's; takes it again, if it is nobody's; and remembers its fencing token.
-- Answers 1, or the owner who is there.
-- KEYS[1] lock, KEYS[2] fence, where there is one; ARGV[1] owner token, ARGV[2] TTL in milliseconds, ARGV[3] fencing token,
-- ARGV[4] how long the fence is remembered, in milliseconds
local owner = redis.call('GET', KEYS[1])
if owner and owner ~= ARGV[1] then
  return owner
end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
if KEYS[2] and tonumber(ARGV[3]) >= tonumber(redis.call('GET', KEYS[2]) or '0') then
  redis.call('SET', KEYS[2], ARGV[3], 'PX', ARGV[4])
end
return 1
