-- wrk script: each request has the next token of the file TOKENS, and the cursor of an idle device. With CLOSING each
-- one has its own connection.
local requests = {}
local next_request = 0

function init(_)
  local path = os.getenv("POLL_PATH") or "/apiv1/devices/self/updates"
  local closing = os.getenv("CLOSING") and "Connection: close\r\n" or ""
  for token in io.lines(os.getenv("TOKENS")) do
    requests[#requests + 1] = "GET " .. path .. " HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer " .. token ..
      "\r\nIf-None-Match: \"0-0\"\r\nUser-Agent: bench\r\nAccept: */*\r\n" .. closing .. "\r\n"
  end
end

function request()
  next_request = next_request % #requests + 1
  return requests[next_request]
end

local wrong = 0
function response(status)
  if status ~= 204 then wrong = wrong + 1 end
end
