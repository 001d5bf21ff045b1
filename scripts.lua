-- KEYS are the keys of one lock, then their numbers where it has a fence; for release, keys of many locks.
-- ARGV begins with the token, for release with the token of each key; inspect needs none.
-- A section starts at "-- script: name"; scripts.go splits the file there.

-- script: renew
-- ARGV[2] = ttl in ms, then '1' to give the token back where it is missing, the fence ('' for none, '0' to
-- learn it), and how long numbers live in ms. Returns a list. {1, shortest PTTL until now, largest number until now}: the
-- token was there and has a new ttl; {2}: a key was missing and was set again (healed); {3}: a key is missing, and
-- nothing was done; {0}: a key holds another token, and nothing was done. Numbers below the fence are raised to it.
-- Each number begins a new life: ARGV[5] plus its lead on the node's clock, and at least the ttl. A number of 2^53 or
-- more stays as it is. A call that would learn it is an error and does nothing.
local n = ARGV[4] == '' and #KEYS or #KEYS / 2
local effects = ARGV[4] ~= '' and redis.replicate_commands and redis.replicate_commands() -- Redis 3.2 to 4 write nothing after TIME without it
local missing, left = false, nil
for i = 1, n do
	local value = redis.call('GET', KEYS[i])
	if not value then
		missing = true
	elseif value ~= ARGV[1] then
		return {0}
	else
		local ends = redis.call('PTTL', KEYS[i])
		left = math.min(left or ends, ends)
	end
end
if missing and ARGV[3] ~= '1' then
	return {3}
end
local fence, numbers, largest = tonumber(ARGV[4]), {}, 0
for i = n + 1, #KEYS do
	local number = tonumber(redis.call('GET', KEYS[i]) or '') or 0
	number = number > 0 and math.min(math.floor(number), 2 ^ 53) or 0 -- Lua reads 'nan' as a number
	if fence >= 2 ^ 53 or fence == 0 and number == 2 ^ 53 then
		return {err = 'FENCEFULL the number of key ' .. i - n .. ' is 2^53 or more'}
	end
	largest = number < 2 ^ 53 and math.max(largest, number) or largest
	numbers[i] = number
end
for i = 1, n do
	if redis.call('PEXPIRE', KEYS[i], ARGV[2]) == 0 then
		redis.call('SET', KEYS[i], ARGV[1], 'PX', ARGV[2])
	end
end
local now = effects and redis.pcall('TIME') or {}
for i = n + 1, #KEYS do
	local lead = 31622400000 -- 366 days, where the node does not tell the time
	if now[1] then
		lead = math.max(0, math.max(numbers[i], fence) / 1000 - now[1] * 1000 - now[2] / 1000)
	end
	local life = string.format('%.0f', math.max(tonumber(ARGV[5]) + lead, tonumber(ARGV[2])))
	if numbers[i] < fence then
		redis.call('SET', KEYS[i], ARGV[4], 'PX', life)
	else
		redis.call('PEXPIRE', KEYS[i], life)
	end
end
if missing then
	return {2}
end
return {1, left, largest}

-- script: release
-- Any number of keys, each a lock of its own. After their tokens, ARGV has for the last m of them the
-- names of their waiting lists, then m channels to take off these lists ('' for none). Returns for each
-- key 1: deleted; 2: the key was missing, or held another of the tokens and is deleted too; 0: the key holds
-- another token; or the error's text where it cannot be read. If the key is free now, the first of its waiting
-- list is woken, which adds 4; who does not listen any more is passed over. The lists are not in KEYS, and what
-- concerns them is guarded: a release must release even where it has no right to them.
local keys, args, try = KEYS, ARGV, redis.pcall
local n = #keys
local m = (#args - n) / 2
local results, deleted = {}, {}
for first = 1, n, 1000 do -- Lua cannot unpack more than some thousands
	local last = math.min(first + 999, n)
	local values = try('MGET', unpack(keys, first, last)) -- costs less than a GET for each, but may be refused where that is not
	local ours = {}
	for i = first, last do
		local value
		if values.err then
			value = try('GET', keys[i])
		else
			value = values[i - first + 1]
		end
		if value == args[i] then
			ours[#ours + 1] = keys[i]
			deleted[keys[i]] = true
			results[i] = 1
		elseif not value then
			results[i] = 2
		elseif type(value) == 'table' then
			results[i] = value.err
		else
			results[i] = 0
		end
	end
	if #ours > 0 then
		redis.call('DEL', unpack(ours))
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
	if results[k] == 0 and deleted[keys[k]] then
		results[k] = 2
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

-- script: acquire
-- ARGV[2] = ttl in ms, then the proposal for the fence ('' for none), how long numbers live in ms, and
-- for who waits the name of a list, a channel, when it first entered in µs ('' if it does so now), and how
-- long a new list lives in ms. Takes all keys if they are free, or none, and stores the
-- same number for each: the proposal, or more if that is not above all of theirs. Its life is that of renew. A number
-- of 2^53 or more is an error, and nothing is done: Lua cannot count on from there. Returns {1, number, when
-- entered}, or {0, index of the first key that is not free, its PTTL, when entered, its token}: the first 1,024
-- bytes of the token, '' if the key holds no string.
-- Who waits is entered in any case: who took the keys here may still be refused elsewhere, and release takes the
-- channel off. A list is not kept alive by those who enter: so nobody's entry outlives it, and
-- who still waits enters again, with the place that it had.
local keys, args, call = KEYS, ARGV, redis.call
local proposal = tonumber(args[3])
local n = proposal and #keys / 2 or #keys
local effects = proposal and redis.replicate_commands and redis.replicate_commands() -- Redis 3.2 to 4 write nothing after TIME without it
local number, kept = proposal or 0, 0
for i = n + 1, #keys do
	local stored = math.floor(tonumber(call('GET', keys[i]) or '') or 0)
	kept = math.max(stored, kept)
	if stored >= number then
		number = stored + 1
	end
	if number >= 2 ^ 53 then
		return {err = 'FENCEFULL the next number of key ' .. i - n .. ' would be 2^53 or more'}
	end
end
local blocked = nil
if n == 1 then
	blocked = not call('SET', keys[1], args[1], 'NX', 'PX', args[2]) and 1 or nil
else
	for i = n, 1, -1 do
		if call('EXISTS', keys[i]) == 1 then
			blocked = i
		end
	end
	for i = 1, blocked and 0 or n do
		call('SET', keys[i], args[1], 'PX', args[2])
	end
end
-- A command that is sent twice finds its own token: granted, with the number that is stored already.
local mine = blocked ~= nil
for i = 1, blocked and n or 0 do
	mine = mine and redis.pcall('GET', keys[i]) == args[1]
end
if mine then
	blocked = nil
	number = kept > 0 and kept or number
end
if proposal and not blocked and number ~= kept then
	local lead = 31622400000 -- 366 days, where the node does not tell the time
	local now = effects and redis.pcall('TIME') or {}
	if now[1] then
		lead = math.max(0, number / 1000 - now[1] * 1000 - now[2] / 1000)
	end
	local life = string.format('%.0f', math.max(tonumber(args[4]) + lead, tonumber(args[2])))
	local text = number == proposal and args[3] or string.format('%.0f', number)
	for i = n + 1, #keys do
		call('SET', keys[i], text, 'PX', life)
	end
end
local since = args[7] or ''
if args[5] then
	if since == '' then
		local now = redis.pcall('TIME')
		since = now[1] and string.format('%.0f', now[1] * 1000000 + now[2]) or '0'
	end
	if redis.pcall('ZADD', args[5], 'NX', since, args[6]) == 1 and redis.pcall('PTTL', args[5]) == -1 then
		redis.pcall('PEXPIRE', args[5], args[8])
	end
end
if blocked then
	local holder = redis.pcall('GET', keys[blocked])
	holder = type(holder) == 'string' and string.sub(holder, 1, 1024) or ''
	return {0, blocked, call('PTTL', keys[blocked]), since, holder}
end
return {1, number, since}

-- script: inspect
-- One key; ARGV[1] = where its fence stands. Changes nothing. Returns {0}: the key is missing;
-- {1, value, PTTL, fence} with '' for no fence; {2, type, PTTL}: it holds no string. The fence is not in KEYS,
-- and what takes more rights than a lock does is guarded.
local value = redis.pcall('GET', KEYS[1])
if not value then
	return {0}
end
if type(value) == 'table' then
	if not string.find(value.err, 'WRONGTYPE', 1, true) then
		return value
	end
	return {2, redis.pcall('TYPE', KEYS[1]).ok or 'value of another type', redis.call('PTTL', KEYS[1])}
end
local fence = redis.pcall('GET', ARGV[1])
if type(fence) ~= 'string' then
	fence = ''
end
return {1, value, redis.call('PTTL', KEYS[1]), fence}
