-- Every script gets KEYS[1] = the lock key and ARGV[1] = the token.
-- A section starts at "-- script: name"; scripts.go splits the file there.

-- script: renew
-- ARGV[2] = ttl in ms. Returns 1: the token was there and has a new ttl; 2: the key was
-- missing and was set again (healed); 0: the key holds another token.
local value = redis.call('GET', KEYS[1])
if value == ARGV[1] then
	redis.call('PEXPIRE', KEYS[1], ARGV[2])
	return 1
end
if value then
	return 0
end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return 2

-- script: release
-- Returns 1: deleted; 2: the key was missing; 0: the key holds another token.
local value = redis.call('GET', KEYS[1])
if value == ARGV[1] then
	redis.call('DEL', KEYS[1])
	return 1
end
if value then
	return 0
end
return 2
