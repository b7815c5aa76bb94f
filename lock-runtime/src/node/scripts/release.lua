-- Gives the lock back, if it is the caller's, or was until an operator took it. Answers 1 if so, 0 if not.
-- KEYS[1] lock, ARGV[1] owner token, ARGV[2] milliseconds for which it lives on, 0: none
local owner = redis.call('GET', KEYS[1])
if owner ~= ARGV[1] then
  return owner == 'forced:' .. ARGV[1] and redis.call('DEL', KEYS[1]) or 0
end
if ARGV[2] == '0' then
  return redis.call('DEL', KEYS[1])
end
return redis.call('PEXPIRE', KEYS[1], ARGV[2])
