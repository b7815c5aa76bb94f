-- Gives the lock back, if it is the caller's, or was until an operator took it, and tells who listens. Answers 0 if it is not,
-- or else 1 and how many were told, or -1: given back, and the caller may not publish.
-- KEYS[1] lock, ARGV[1] owner token, ARGV[2] the lock's channel, ARGV[3] for how many milliseconds the caller had waited for it
local owner = redis.call('GET', KEYS[1])
if owner ~= ARGV[1] and owner ~= 'forced:' .. ARGV[1] then
  return 0
end
redis.call('DEL', KEYS[1])
local told = redis.pcall('PUBLISH', ARGV[2], ARGV[3])
return type(told) == 'number' and 1 + told or -1
