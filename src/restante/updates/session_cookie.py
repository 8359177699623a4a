"""The session cookie: out of reach of scripts, and not sent along when another site posts to us.

It is Secure where people come by https: by the request itself, or by the address they are told to use, since behind a
proxy that ends TLS every request looks plain.
"""

from urllib.parse import urlsplit

from starlette.requests import Request

from restante.web.access import SESSION_COOKIE

Header = tuple[bytes, bytes]


class SessionCookie:
    def __init__(self, public_url: str | None) -> None:
        self._is_public_https = public_url is not None and urlsplit(public_url).scheme == "https"

    def given(self, request: Request, token: str, lifetime_seconds: int) -> Header:
        return self._header(request, token, lifetime_seconds)

    def cleared(self, request: Request) -> Header:
        return self._header(request, "", 0)

    def _header(self, request: Request, value: str, lifetime_seconds: int) -> Header:
        secure = "; Secure" if self._is_public_https or request.scope["scheme"] == "https" else ""
        attributes = f"Path=/; Max-Age={lifetime_seconds}; HttpOnly; SameSite=Lax{secure}"
        return b"set-cookie", f"{SESSION_COOKIE}={value}; {attributes}".encode()
