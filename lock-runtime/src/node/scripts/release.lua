-- Gives the lock back, if it is the caller's. Answers 1 if so, 0 if not.
-- KEYS[1] lock, ARGV[1] owner token, ARGV[2] milliseconds for which it lives on, 0: none
if redis.call('GET', KEYS[1]) ~= ARGV[1] then
  return 0
end
if ARGV[2] == '0' then
  return redis.call('DEL', KEYS[1])
end
return redis.call('PEXPIRE', KEYS[1], ARGV[2])
