"""A response: the same object for the ASGI application and for the fast lane."""

from collections.abc import AsyncIterator

import msgspec
from starlette.responses import Response, StreamingResponse

Headers = tuple[tuple[bytes, bytes], ...]

NO_STORE = (b"cache-control", b"no-store")
JSON = (b"content-type", b"application/json")
HTML = "text/html"


class ApiResponse(msgspec.Struct, frozen=True):
    """Status, headers with lower-case names, body. The sender adds Content-Length.

    `stream` replaces the body of a long response, which is sent in parts. If it fails, the connection ends without the
    last part, so that the client notices.
    """

    status: int
    headers: Headers = (NO_STORE,)
    body: bytes = b""
    stream: AsyncIterator[bytes] | None = None

    def with_headers(self, *headers: tuple[bytes, bytes]) -> "ApiResponse":
        return msgspec.structs.replace(self, headers=(*self.headers, *headers))


def to_starlette(response: ApiResponse) -> Response:
    if response.stream is not None:
        streaming = StreamingResponse(response.stream, response.status)
        streaming.raw_headers = list(response.headers)
        return streaming
    starlette_response = Response(response.body, response.status)
    starlette_response.raw_headers = [
        *response.headers,
        *(((b"content-length", b"%d" % len(response.body)),) if response.status not in (204, 304) else ()),
    ]
    return starlette_response


def json_response(body: bytes, status: int = 200, *headers: tuple[bytes, bytes]) -> ApiResponse:
    return ApiResponse(status, (JSON, NO_STORE, *headers), body)


def html_response(page: str, status: int = 200, *headers: tuple[bytes, bytes]) -> ApiResponse:
    # Pages load, run and embed nothing from other origins.
    policy = b"default-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
    return ApiResponse(
        status,
        ((b"content-type", b"text/html; charset=utf-8"), NO_STORE, (b"content-security-policy", policy), *headers),
        page.encode(),
    )
