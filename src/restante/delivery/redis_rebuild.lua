-- Writes a device's stream anew from the record. KEYS[1]: the stream. ARGV: how many entries to keep about, then position
-- and signal, again and again. One that has gone on beyond the record's last entry meanwhile is left alone.
local function parts(position)
    local ms, n = string.match(position, '^(%d+)-(%d+)$')
    return tonumber(ms), tonumber(n)
end
local last = redis.call('XREVRANGE', KEYS[1], '+', '-', 'COUNT', 1)
if last[1] then
    local last_ms, last_n = parts(last[1][1])
    local newest_ms, newest_n = parts(ARGV[#ARGV - 1])
    if last_ms > newest_ms or (last_ms == newest_ms and last_n > newest_n) then
        return 0
    end
    redis.call('DEL', KEYS[1])
end
for index = 2, #ARGV, 2 do
    redis.call('XADD', KEYS[1], 'MAXLEN', '~', ARGV[1], ARGV[index], 'signal', ARGV[index + 1])
end
return 1
