"""An answer on its way out, the same whether the ASGI application or the fast lane sends it."""

import msgspec
from starlette.responses import Response

Headers = tuple[tuple[bytes, bytes], ...]

NO_STORE = (b"cache-control", b"no-store")
JSON = (b"content-type", b"application/json")


class Answer(msgspec.Struct, frozen=True):
    """Status, headers with lower-case names, body. Content-Length is the sender's business."""

    status: int
    headers: Headers = (NO_STORE,)
    body: bytes = b""

    def with_headers(self, *headers: tuple[bytes, bytes]) -> "Answer":
        return Answer(self.status, (*self.headers, *headers), self.body)


def as_response(answer: Answer) -> Response:
    response = Response(answer.body, answer.status)
    response.raw_headers = [
        *answer.headers,
        *(((b"content-length", b"%d" % len(answer.body)),) if answer.status not in (204, 304) else ()),
    ]
    return response


def json_answer(body: bytes, status: int = 200, *headers: tuple[bytes, bytes]) -> Answer:
    return Answer(status, (JSON, NO_STORE, *headers), body)


def html_answer(page: str, status: int = 200, *headers: tuple[bytes, bytes]) -> Answer:
    # Pages are ours alone: nothing from elsewhere is loaded, run or framed.
    policy = b"default-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
    return Answer(
        status,
        ((b"content-type", b"text/html; charset=utf-8"), NO_STORE, (b"content-security-policy", policy), *headers),
        page.encode(),
    )
