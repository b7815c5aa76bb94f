-- Takes the lock from its owner, for an operator. What is left in his place says so, for as long as he may believe in it: his
-- renewals are refused, and his release ends it. Answers who was there, or nil, and for how many milliseconds it is there still.
-- KEYS[1] lock, ARGV[1] for how many milliseconds, where that is not known, ARGV[2] who is to be refused where nobody is there,
-- if somebody is: then for so long at the least
local owner = redis.call('GET', KEYS[1])
local left = redis.call('PTTL', KEYS[1])
if not owner and not ARGV[2] then
  return {false, 0}
end
if not owner or left == -1 then
  left = tonumber(ARGV[1])
elseif ARGV[2] then
  left = math.max(left, tonumber(ARGV[1]))
end
left = math.max(left, 1)
local seized = owner or ARGV[2]
if string.sub(seized, 1, 7) ~= 'forced:' then
  seized = 'forced:' .. seized
end
redis.call('SET', KEYS[1], seized, 'PX', left)
return {owner, left}
