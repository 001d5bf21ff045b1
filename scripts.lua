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
local keys, args, try = KEYS, ARGV, redis.pcall
local n = #keys
local m = (#args - n) / 2
local results = {}
for i = 1, n do
	local value = try('GET', keys[i])
	if value == args[i] then
		redis.call('DEL', keys[i])
		results[i] = 1
	elseif not value then
		results[i] = 2
	elseif type(value) == 'table' then
		results[i] = value.err
	else
		results[i] = 0
	end
end
-- Mostly nobody waits: one question for all lists costs less than one for each.
if m == 0 or try('EXISTS', unpack(args, n + 1, n + m)) == 0 then
	return results
end
for i = 1, m do
	local k, list, channel = n - m + i, args[n + i], args[n + m + i]
	if channel ~= '' then
		try('ZREM', list, channel)
	end
	local free = results[k] == 1 or results[k] == 2
	while free do
		local first = try('ZPOPMIN', list)
		free = first[1] ~= nil
		if free and try('PUBLISH', first[1], keys[k]) ~= 0 then
			results[k] = results[k] + 4
			free = false
		end
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
