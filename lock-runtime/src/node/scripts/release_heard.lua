-- Gives the lock back, as release_aloud.lua does, and tells who listens here: in a cluster whatever is published goes to all
-- servers, so nothing is where nobody would hear it. Answers as that one does.
-- KEYS[1] lock, ARGV[1] owner token, ARGV[2] the lock's channel, ARGV[3] for how many milliseconds the caller had waited for it
local owner = redis.call('GET', KEYS[1])
if owner ~= ARGV[1] and owner ~= 'forced:' .. ARGV[1] then
  return 0
end
redis.call('DEL', KEYS[1])
if redis.call('PUBSUB', 'NUMSUB', ARGV[2])[2] == 0 then
  return 1
end
local told = redis.pcall('PUBLISH', ARGV[2], ARGV[3])
return type(told) == 'number' and 1 + told or -1
