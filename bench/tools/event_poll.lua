-- wrk script: event polls that do not wait, each with the next token of the file TOKENS and its own interaction id.
-- With CLOSING each one has its own connection.
local heads = {}
local number = 0
local body = '{"returnImmediately":true}'
local closing = os.getenv("CLOSING") and "\r\nConnection: close" or ""
local tail = closing .. "\r\nContent-Type: application/json\r\nContent-Length: " .. #body .. "\r\n\r\n" .. body

function init(_)
  local path = os.getenv("POLL_PATH")
  for token in io.lines(os.getenv("TOKENS")) do
    heads[#heads + 1] = "POST " .. path .. " HTTP/1.1\r\nHost: localhost\r\nUser-Agent: bench\r\nAccept: */*\r\nAuthorization: Bearer " ..
      token .. "\r\nx-fapi-interaction-id: 93bac548-d2de-4546-b106-"
  end
end

function request()
  number = number + 1
  return heads[number % #heads + 1] .. string.format("%012x", number) .. tail
end
