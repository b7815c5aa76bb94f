-- Takes the lock if nobody has it, and proposes a fencing token: stored if it is larger than what is stored.
-- Answers what was stored before, 0 if nothing, or the owner who is there.
-- KEYS[1] lock, KEYS[2] fence, ARGV[1] owner token, ARGV[2] TTL in milliseconds, ARGV[3] proposed fencing token,
-- ARGV[4] how long the fence is remembered, in milliseconds
if not redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then
  local owner = redis.call('GET', KEYS[1])
  if owner ~= ARGV[1] then
    return owner or ''
  end
  -- Written again where it is the caller's: there has to be something that replicas can confirm.
  redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
end
local stored = tonumber(redis.call('GET', KEYS[2]) or '0')
if tonumber(ARGV[3]) > stored then
  redis.call('SET', KEYS[2], ARGV[3], 'PX', ARGV[4])
end
return stored
