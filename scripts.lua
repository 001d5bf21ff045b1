-- KEYS are lock keys, ARGV begins with the token of each.
-- A section starts at "-- script: name"; scripts.go splits the file there.

-- script: renew
-- One key; ARGV[2] = ttl in ms. Returns a list. {1, PTTL until now}: the token was there and
-- has a new ttl; {2}: the key was missing and was set again (healed); {0}: the key holds
-- another token.
local value = redis.call('GET', KEYS[1])
if value == ARGV[1] then
	local left = redis.call('PTTL', KEYS[1])
	redis.call('PEXPIRE', KEYS[1], ARGV[2])
	return {1, left}
end
if value then
	return {0}
end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return {2}

-- script: release
-- Any number of keys, each a lock of its own. Returns for each 1: deleted; 2: the key was
-- missing; 0: the key holds another token; or the error's text where it cannot be read.
local results = {}
for i = 1, #KEYS do
	local value = redis.pcall('GET', KEYS[i])
	if value == ARGV[i] then
		redis.call('DEL', KEYS[i])
		results[i] = 1
	elseif not value then
		results[i] = 2
	elseif type(value) == 'table' then
		results[i] = value.err
	else
		results[i] = 0
	end
end
return results
