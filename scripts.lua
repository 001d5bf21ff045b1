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
-- Any number of keys, each a lock of its own. After their tokens, ARGV has for the last m of them the
-- names of their waiting lists, then m channels to take off these lists ('' for none). Returns for each
-- key 1: deleted; 2: the key was missing; 0: the key holds another token; or the error's text where it
-- cannot be read. If the key is free now, the first of its waiting list is woken, which adds 4; who does
-- not listen any more is passed over. The lists are not in KEYS, and what concerns them is guarded:
-- a release must release even where it has no right to them.
local lists = (#ARGV - #KEYS) / 2
local function wake(list, channel, key, free)
	if channel ~= '' then
		redis.pcall('ZREM', list, channel)
	end
	while free do
		local first = redis.pcall('ZPOPMIN', list)
		if not first[1] then
			return 0
		end
		local heard = redis.pcall('PUBLISH', first[1], key)
		if heard ~= 0 then
			return 4
		end
	end
	return 0
end
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
	if i + lists > #KEYS and type(results[i]) == 'number' then
		results[i] = results[i] + wake(ARGV[i + lists], ARGV[i + 2 * lists], KEYS[i], results[i] > 0)
	end
end
return results

-- script: enter
-- One key; ARGV[2] = ttl in ms, then the name of its waiting list, a channel, when that channel first
-- entered in µs ('' if it does so now), and how long a new list lives in ms. Takes the key if it is free,
-- and enters the channel into the list in any case: who took it here may still be refused elsewhere,
-- and release takes it off. Returns {1, when entered} or, with another token there, {0, when
-- entered, PTTL of the key}. A list is not kept alive by those who enter: so nobody's entry
-- outlives it, and who still waits enters again, with the place that it had.
local taken = redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2])
local since = ARGV[5]
if since == '' then
	local now = redis.pcall('TIME')
	since = now[1] and string.format('%.0f', now[1] * 1000000 + now[2]) or '0'
end
if redis.pcall('ZADD', ARGV[3], 'NX', since, ARGV[4]) == 1 and redis.pcall('PTTL', ARGV[3]) == -1 then
	redis.pcall('PEXPIRE', ARGV[3], ARGV[6])
end
if taken then
	return {1, since}
end
return {0, since, redis.call('PTTL', KEYS[1])}
