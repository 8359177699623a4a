"""One HTTP call: build the request, send it, decode the response, turn a refusal into an error.

The three protocols have three error bodies. All become a `ResponseError`:

    device updates   {"error": {"code": 5000, "what": "…", "key": "…", "params": {…}}}
    edge commands    {"error": "…", "message": "…"}
    Open Banking     {"Code": "…", "Message": "…", "Errors": [{"ErrorCode": "…", "Message": "…"}]}
    OAuth, RFC 8936  {"error": "…", "error_description": "…"} and {"err": "…", "description": "…"}
"""

from __future__ import annotations

import email.utils
import time
from collections.abc import AsyncGenerator, Mapping
from typing import Any, TypeVar

import httpx
import msgspec

from restante_client.errors import (
    BadRequest,
    Conflict,
    CursorExpired,
    Forbidden,
    NotFound,
    ResponseError,
    Unauthorized,
    Unavailable,
    Unreachable,
    WrapPending,
)
from restante_client.runtime import Response, Runtime

T = TypeVar("T")

CLIENT_VERSION = "0.1.0"
USER_AGENT = f"restante-client/{CLIENT_VERSION}"
TIMEOUT_SECONDS = 30.0
MESSAGE_MAX = 500
# No header of a server makes a client wait longer.
PAUSE_SECONDS_MAX = 86_400.0
_ERRORS: dict[int, type[ResponseError]] = {
    401: Unauthorized,
    403: Forbidden,
    404: NotFound,
    408: Unavailable,
    409: Conflict,
    429: Unavailable,
}


class Caller:
    """Calls one server."""

    def __init__(self, url: str, runtime: Runtime, timeout_seconds: float = TIMEOUT_SECONDS) -> None:
        self._base = httpx.URL(url if url.endswith("/") else url + "/")
        if self._base.scheme not in ("http", "https") or not self._base.host:
            raise ValueError(f"url: expected http://… or https://…, not {url!r}")
        self._runtime = runtime
        self._timeout_seconds = timeout_seconds

    async def call(
        self,
        method: str,
        path: str,
        *,
        token: str | None = None,
        query: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
        json: Any = None,
        content: bytes | None = None,
        more_seconds: float = 0.0,
    ) -> Response:
        """Send a request and return the response, or raise `ResponseError` for a status from 400 on.

        `more_seconds` is the time that the server may hold the request on purpose.
        """
        request = self._request(method, path, token, query, headers, json, content)
        response = await self._runtime.send(request, self._timeout_seconds + more_seconds)
        if response.status >= 400:
            raise error_of(response)
        if response.status >= 300 and response.status != 304:
            raise Unreachable(f"{method} {path}: unexpected status {response.status}; is the URL right?")
        return response

    async def stream(
        self, path: str, *, token: str | None = None, query: Mapping[str, Any] | None = None
    ) -> AsyncGenerator[bytes, None]:
        """The parts of the response to a GET, as they arrive. Raises `ResponseError` for a status from 400 on."""
        request = self._request("GET", path, token, query, {"Accept": "*/*"}, None, None)
        generator = self._runtime.stream(request, self._timeout_seconds)
        try:
            async for part in generator:
                if isinstance(part, Response):
                    raise error_of(part)
                yield part
        finally:
            await generator.aclose()

    def _request(
        self,
        method: str,
        path: str,
        token: str | None,
        query: Mapping[str, Any] | None,
        headers: Mapping[str, str] | None,
        json: Any,
        content: bytes | None,
    ) -> httpx.Request:
        sent = {"User-Agent": USER_AGENT, "Accept": "application/json", **(headers or {})}
        if json is not None:
            content = msgspec.json.encode(json)
            sent["Content-Type"] = "application/json"
        if token is not None:
            sent["Authorization"] = f"Bearer {token}"
        return httpx.Request(
            method, self._base.join(path.lstrip("/")), params=query or None, headers=sent, content=content
        )


def decode(response: Response, kind: type[T]) -> T:
    """The JSON body as a value of this kind."""
    try:
        return msgspec.json.decode(response.body, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise Unreachable(f"the response is not what the protocol says: {error}") from None


def error_of(response: Response) -> ResponseError:
    code, message, params = _describe(response.body)
    kind = _ERRORS.get(response.status, Unavailable if response.status >= 500 else BadRequest)
    if kind is Conflict and code == "40901":
        kind = CursorExpired
    elif kind is Conflict and "WRAP_PENDING" in message:
        kind = WrapPending
    return kind(response.status, code, message, params=params, retry_after_seconds=retry_after(response.headers))


def retry_after(headers: Mapping[str, str]) -> float | None:
    """The value of `Retry-After` in seconds from now: a number, or a date. At most a day, whatever the server says."""
    text = headers.get("Retry-After", "").strip()
    if text.isascii() and text.isdigit():
        return min(float(text), PAUSE_SECONDS_MAX)
    try:
        parsed = email.utils.parsedate_to_datetime(text)
        seconds = parsed.timestamp() - time.time()
    except (TypeError, ValueError, OverflowError):
        return None
    return min(max(0.0, seconds), PAUSE_SECONDS_MAX)


def _describe(body: bytes) -> tuple[str, str, dict[str, Any]]:
    """The code, the message and the parameters in an error body of any of the protocols."""
    try:
        found = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return "", body[:MESSAGE_MAX].decode("utf-8", "replace"), {}
    if not isinstance(found, dict):
        return "", str(found)[:MESSAGE_MAX], {}
    error = found.get("error")
    if isinstance(error, dict):
        params = error.get("params")
        return str(error.get("code", "")), _text(error.get("what")), params if isinstance(params, dict) else {}
    code = _text(error or found.get("err") or found.get("Code"))
    message = _text(
        found.get("message") or found.get("error_description") or found.get("description") or found.get("Message")
    )
    details = found.get("Errors")
    if isinstance(details, list) and details and isinstance(details[0], dict):
        code = _text(details[0].get("ErrorCode")) or code
        message = _text(details[0].get("Message")) or message
    return code, message or code, {}


def _text(value: Any) -> str:
    return "" if value is None else str(value)[:MESSAGE_MAX]
