-- wrk script: each request has the next token of the file TOKENS; the cursor is in POLL_PATH.
local requests = {}
local next_request = 0

function init(_)
  local path = os.getenv("POLL_PATH")
  for token in io.lines(os.getenv("TOKENS")) do
    requests[#requests + 1] = "GET " .. path .. " HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer " .. token ..
      "\r\nUser-Agent: bench\r\nAccept: */*\r\n\r\n"
  end
end

function request()
  next_request = next_request % #requests + 1
  return requests[next_request]
end
