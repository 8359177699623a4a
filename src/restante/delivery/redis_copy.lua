-- Appends a run of signals to a device's stream. KEYS[1]: the stream. ARGV: the position the run follows, how many
-- entries to keep about, then position and signal, again and again.
-- What does not follow the stream's last entry starts it anew: a stream is one unbroken run.
local last = redis.call('XREVRANGE', KEYS[1], '+', '-', 'COUNT', 1)
if last[1] and last[1][1] ~= ARGV[1] then
    local newest = ARGV[#ARGV - 1]
    local there = redis.call('XRANGE', KEYS[1], newest, newest)
    if there[1] and there[1][2][2] == ARGV[#ARGV] then
        return 0
    end
    redis.call('DEL', KEYS[1])
end
for index = 3, #ARGV, 2 do
    redis.call('XADD', KEYS[1], 'MAXLEN', '~', ARGV[2], ARGV[index], 'signal', ARGV[index + 1])
end
return 1
