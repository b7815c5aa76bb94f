-- Proposes a larger fencing token for a lock that is the caller's. Answers what was stored before, -1: not the caller's.
-- KEYS[1] lock, KEYS[2] fence, ARGV[1] owner token, ARGV[2] proposed fencing token, ARGV[3] how long the fence is
-- remembered, in milliseconds
if redis.call('GET', KEYS[1]) ~= ARGV[1] then
  return -1
end
local stored = tonumber(redis.call('GET', KEYS[2]) or '0')
if tonumber(ARGV[2]) > stored then
  redis.call('SET', KEYS[2], ARGV[2], 'PX', ARGV[3])
end
return stored
