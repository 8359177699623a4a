-- wrk script: each request is for the next line of the file TARGETS: a path, a space, and the token to send, or - for
-- none.
local requests = {}
local next_request = 0

function init(_)
  for line in io.lines(os.getenv("TARGETS")) do
    local path, token = line:match("^(%S+) (%S+)$")
    local authorization = token ~= "-" and "Authorization: Bearer " .. token .. "\r\n" or ""
    requests[#requests + 1] = "GET " .. path .. " HTTP/1.1\r\nHost: localhost\r\n" .. authorization ..
      "If-None-Match: \"0-0\"\r\nUser-Agent: bench\r\nAccept: */*\r\n\r\n"
  end
end

function request()
  next_request = next_request % #requests + 1
  return requests[next_request]
end
