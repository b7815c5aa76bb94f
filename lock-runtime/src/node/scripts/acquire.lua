-- Redis before 7.0 has no SET with both NX and GET. Answers the owner who is there, or nil: granted. A server that takes no
-- writes says so first, as it does to that SET.
-- KEYS[1] lock, ARGV[1] owner token, ARGV[2] TTL in milliseconds
if redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then
  return false
end
-- No key ends while a script runs. If one did, that would not be a grant.
return redis.call('GET', KEYS[1]) or ''
