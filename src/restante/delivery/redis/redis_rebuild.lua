-- Replaces the stream of a device by entries from the database. KEYS[1]: the stream. ARGV: the approximate number of
-- entries to keep, then position, signal and tag of each signal. A stream that is newer than these entries is not changed.
local function parts(position)
    local ms, n = string.match(position, '^(%d+)-(%d+)$')
    return tonumber(ms), tonumber(n)
end
local last = redis.call('XREVRANGE', KEYS[1], '+', '-', 'COUNT', 1)
if last[1] then
    local last_ms, last_n = parts(last[1][1])
    local newest_ms, newest_n = parts(ARGV[#ARGV - 2])
    if last_ms > newest_ms or (last_ms == newest_ms and last_n > newest_n) then
        return 0
    end
    redis.call('DEL', KEYS[1])
end
for index = 2, #ARGV, 3 do
    redis.call('XADD', KEYS[1], 'MAXLEN', '~', ARGV[1], ARGV[index], 'signal', ARGV[index + 1], 'tag', ARGV[index + 2])
end
return 1
