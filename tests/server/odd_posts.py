"""Unusual ACKs: each one deviates in one way from a usual ACK.

`{token}` stands for the token of the collector, `{id}` for a command that it has leased.
"""

from tests.server.fast_lane_collector import BASE

BODY = b'{"status":"succeeded"}'
LENGTH = b"Content-Length: %d" % len(BODY)
JSON = b"Content-Type: application/json"
OTHER = b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n"
POLL = b"GET %bpoll HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {token}\r\n\r\n" % BASE


def with_lines(*lines: bytes, body: bytes = BODY, target: bytes = BASE + b"{id}/ack") -> bytes:
    head = [b"POST %b HTTP/1.1" % target, b"Host: x", b"Authorization: Bearer {token}", *lines, b"", b""]
    return b"\r\n".join(head) + body


def with_body(body: bytes, *lines: bytes) -> bytes:
    return with_lines(JSON, b"Content-Length: %d" % len(body), *lines, body=body)


def with_target(target: bytes) -> bytes:
    return with_lines(JSON, LENGTH, target=target)


ACK = with_lines(JSON, LENGTH)
CHUNKS = b"16\r\n" + BODY + b"\r\n0\r\n\r\n"

ODD_POSTS = {
    "plain": ACK,
    "length before type": with_lines(LENGTH, JSON),
    "names in small letters": with_lines(JSON.lower(), LENGTH.lower()),
    "names in capitals": with_lines(b"CONTENT-TYPE: application/json", b"CONTENT-LENGTH: 22"),
    "no space behind the colon": with_lines(b"Content-Type:application/json", b"Content-Length:22"),
    "spaces around the length": with_lines(JSON, b"Content-Length:  22 \t"),
    "tab before the length": with_lines(JSON, b"Content-Length:\t22"),
    "no length": with_lines(JSON),
    "no length and no body": with_lines(JSON, body=b""),
    "empty length": with_lines(JSON, b"Content-Length:"),
    "length 0": with_lines(JSON, b"Content-Length: 0", body=b""),
    "length 0 and a body": with_lines(JSON, b"Content-Length: 0"),
    "length too small": with_lines(JSON, b"Content-Length: 21"),
    "length one too large": with_lines(JSON, b"Content-Length: 23", body=BODY + b"\n"),
    "length twice, the same": with_lines(JSON, LENGTH, LENGTH),
    "length twice, different": with_lines(JSON, LENGTH, b"Content-Length: 21"),
    "length twice, in two cases": with_lines(JSON, LENGTH, b"content-length: 22"),
    "length twice, different, in two cases": with_lines(JSON, LENGTH, b"content-length: 21"),
    "length as a list": with_lines(JSON, b"Content-Length: 22, 22"),
    "length with a sign": with_lines(JSON, b"Content-Length: +22"),
    "negative length": with_lines(JSON, b"Content-Length: -22"),
    "length with zeros in front": with_lines(JSON, b"Content-Length: 00022"),
    "length with many zeros in front": with_lines(JSON, b"Content-Length: 0000000000022"),
    "hexadecimal length": with_lines(JSON, b"Content-Length: 0x16"),
    "fractional length": with_lines(JSON, b"Content-Length: 22.0"),
    "length with a letter": with_lines(JSON, b"Content-Length: 22a"),
    "length with a space in it": with_lines(JSON, b"Content-Length: 2 2"),
    "length in other digits": with_lines(JSON, "Content-Length: ２２".encode()),
    "superscript length": with_lines(JSON, b"Content-Length: 2\xb2"),
    "huge length": with_lines(JSON, b"Content-Length: 99999999999999999999"),
    "length with a bare line feed": with_lines(JSON, b"Content-Length: 22\n"),
    "length with a bare carriage return": with_lines(JSON, b"Content-Length: 22\r"),
    "length with a NUL": with_lines(JSON, b"Content-Length: 22\x00"),
    "folded length": with_lines(JSON, b"Content-Length:\r\n 22"),
    "chunked": with_lines(JSON, b"Transfer-Encoding: chunked", body=CHUNKS),
    "chunked, in capitals": with_lines(JSON, b"Transfer-Encoding: CHUNKED", body=CHUNKS),
    "length and chunks": with_lines(JSON, LENGTH, b"Transfer-Encoding: chunked", body=CHUNKS),
    "length and identity": with_lines(JSON, LENGTH, b"Transfer-Encoding: identity"),
    "nonsense chunks": with_lines(JSON, b"Transfer-Encoding: chunked", body=b"zz\r\n"),
    "no type": with_lines(LENGTH),
    "empty type": with_lines(b"Content-Type:", LENGTH),
    "another type": with_lines(b"Content-Type: text/plain", LENGTH),
    "a type that begins the same": with_lines(b"Content-Type: application/jsonx", LENGTH),
    "a form": with_lines(b"Content-Type: application/x-www-form-urlencoded", LENGTH),
    "type twice": with_lines(JSON, JSON, LENGTH),
    "two types": with_lines(JSON, b"Content-Type: text/plain", LENGTH),
    "charset utf-8": with_lines(b"Content-Type: application/json; charset=utf-8", LENGTH),
    "charset without a space": with_lines(b"Content-Type: application/json;charset=UTF-8", LENGTH),
    "another charset": with_lines(b"Content-Type: application/json; charset=latin-1", LENGTH),
    "type in capitals": with_lines(b"Content-Type: APPLICATION/JSON", LENGTH),
    "type and a comma": with_lines(b"Content-Type: application/json, text/plain", LENGTH),
    "space in the type": with_lines(b"Content-Type: application /json", LENGTH),
    "packed": with_lines(JSON, LENGTH, b"Content-Encoding: gzip"),
    "identity encoding": with_lines(JSON, LENGTH, b"Content-Encoding: identity"),
    "Expect": with_lines(JSON, LENGTH, b"Expect: 100-continue"),
    "another expectation": with_lines(JSON, LENGTH, b"Expect: a miracle"),
    "Connection: close": with_lines(JSON, LENGTH, b"Connection: close"),
    "Connection: Close": with_lines(JSON, LENGTH, b"Connection: Close"),
    "Connection: close and a bad body": with_lines(JSON, LENGTH, b"Connection: close", body=b"!" * len(BODY)),
    "Connection: close and a poll behind it": with_lines(JSON, LENGTH, b"Connection: close") + POLL,
    "Connection: keep-alive": with_lines(JSON, LENGTH, b"Connection: keep-alive"),
    "Upgrade": with_lines(JSON, LENGTH, b"Connection: Upgrade", b"Upgrade: h2c"),
    "an unknown header": with_lines(JSON, LENGTH, b"X-Else: 1"),
    "token twice": with_lines(JSON, LENGTH, b"Authorization: Bearer {token}"),
    "no token": ACK.replace(b"Authorization: Bearer {token}\r\n", b""),
    "garbage token": ACK.replace(b"{token}", b"garbage"),
    "scheme in small letters": ACK.replace(b"Bearer", b"bearer"),
    "two spaces before the token": ACK.replace(b"Bearer ", b"Bearer  "),
    "space behind the token": ACK.replace(b"{token}", b"{token} "),
    "no host": ACK.replace(b"Host: x\r\n", b""),
    "host twice": with_lines(JSON, LENGTH, b"Host: y"),
    "control character in a value": with_lines(JSON, LENGTH, b"User-Agent: a\x01b"),
    "space before a colon": with_lines(JSON, b"Content-Length : 22"),
    "only line feeds": ACK.replace(b"\r\n", b"\n"),
    "HTTP/1.0": ACK.replace(b"HTTP/1.1", b"HTTP/1.0"),
    "HTTP/1.0 and keep-alive": with_lines(JSON, LENGTH, b"Connection: keep-alive").replace(b"HTTP/1.1", b"HTTP/1.0"),
    "http in small letters": ACK.replace(b"HTTP/1.1", b"http/1.1"),
    "method in small letters": ACK.replace(b"POST", b"post"),
    "another method": ACK.replace(b"POST", b"PUT"),
    "two spaces before the target": ACK.replace(b"POST ", b"POST  "),
    "empty lines before": b"\r\n\r\n" + ACK,
    "a query": with_target(BASE + b"{id}/ack?a=1"),
    "an empty query": with_target(BASE + b"{id}/ack?"),
    "a fragment": with_target(BASE + b"{id}/ack#a"),
    "absolute form": with_target(b"http://x" + BASE + b"{id}/ack"),
    "a slash behind": with_target(BASE + b"{id}/ack/"),
    "a slash too many": with_target(BASE + b"/{id}/ack"),
    "an encoded id": with_target(BASE + b"%63%6d%64_nowhere/ack"),
    "an encoded slash in the id": with_target(BASE + b"a%2Fb/ack"),
    "a NUL in the id": with_target(BASE + b"a%00b/ack"),
    "dots for an id": with_target(BASE + b"../ack"),
    "a tilde in the id": with_target(BASE + b"~{id}/ack"),
    "no id": with_target(BASE + b"/ack"),
    "an unknown id": with_target(BASE + b"cmd_nowhere/ack"),
    "a long id": with_target(BASE + b"a" * 129 + b"/ack"),
    "an id as long as can be": with_target(BASE + b"a" * 128 + b"/ack"),
    "the poll as an id": with_target(BASE + b"poll/ack"),
    "an id with high bytes": with_target(BASE + b"\xff/ack"),
    "extend": with_target(BASE + b"{id}/extend"),
    "no JSON": with_body(b"nope"),
    "half JSON": with_body(b'{"status":"succeeded"'),
    "JSON and more": with_body(BODY + BODY),
    "a list": with_body(b"[]"),
    "invalid UTF-8": with_body(b'{"status":"succeeded","message":"\xff"}'),
    "a lone surrogate": with_body(b'{"status":"succeeded","message":"\\ud800 and more"}'),
    "a byte order mark": with_body(b"\xef\xbb\xbf" + BODY),
    "an unknown status": with_body(b'{"status":"done"}'),
    "spaces around": with_body(b" \r\n" + BODY + b"\r\n\t "),
    "an empty line in the body": with_body(b'{"status":\r\n\r\n"succeeded"}'),
    "a deep body": with_body(b'{"status":"succeeded","before_snapshot":{"a":' + b"[" * 500 + b"]" * 500 + b"}}"),
    "a deeper body": with_body(b'{"status":"succeeded","before_snapshot":{"a":' + b"[" * 5000 + b"]" * 5000 + b"}}"),
    "a body of 60 KB": with_body(b'{"status":"succeeded","more":"' + b"a" * 60_000 + b'"}'),
    "a body at the lane's bound": with_body(b'{"status":"succeeded","more":"' + b"a" * (65_536 - 32) + b'"}'),
    "a body over the lane's bound": with_body(b'{"status":"succeeded","more":"' + b"a" * (65_537 - 32) + b'"}'),
    "a body of 200 KB": with_body(b'{"status":"succeeded","more":"' + b"a" * 200_000 + b'"}'),
    "a snapshot too large": with_body(b'{"status":"succeeded","before_snapshot":{"a":"' + b"a" * 70_000 + b'"}}'),
    "a request as the body": with_body(OTHER),
    "an ACK and something else": ACK + OTHER,
    "something else and an ACK": OTHER + ACK,
    "an ACK and a poll": ACK + POLL,
    "a poll and an ACK": POLL + ACK,
    "two ACKs": ACK + ACK,
    "an ACK and half a line": ACK + b"\r\n",
    "an ACK and nonsense": ACK + b"nonsense\r\n\r\n",
    "an ACK and half an ACK": ACK + ACK[:60],
}
