-- Appends consecutive signals to the stream of a device. KEYS[1]: the stream. ARGV: the position before the first signal,
-- the approximate number of entries to keep, then position, signal and tag of each signal.
-- If the signals do not follow the last entry of the stream, the stream is started anew: its positions have no gaps.
local last = redis.call('XREVRANGE', KEYS[1], '+', '-', 'COUNT', 1)
if last[1] and last[1][1] ~= ARGV[1] then
    local newest = ARGV[#ARGV - 2]
    local there = redis.call('XRANGE', KEYS[1], newest, newest)
    if there[1] and there[1][2][2] == ARGV[#ARGV - 1] and there[1][2][4] == ARGV[#ARGV] then
        return 0
    end
    redis.call('DEL', KEYS[1])
end
for index = 3, #ARGV, 3 do
    redis.call('XADD', KEYS[1], 'MAXLEN', '~', ARGV[2], ARGV[index], 'signal', ARGV[index + 1], 'tag', ARGV[index + 2])
end
return 1
