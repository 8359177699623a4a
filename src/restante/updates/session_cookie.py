"""The session cookie: out of reach of scripts, and not sent along when another site posts to us."""

from starlette.requests import Request

from restante.web.access import SESSION_COOKIE

Header = tuple[bytes, bytes]


def set_session(request: Request, token: str, lifetime_seconds: int) -> Header:
    return _cookie(request, token, lifetime_seconds)


def clear_session(request: Request) -> Header:
    return _cookie(request, "", 0)


def _cookie(request: Request, value: str, lifetime_seconds: int) -> Header:
    secure = "; Secure" if request.scope["scheme"] == "https" else ""
    attributes = f"Path=/; Max-Age={lifetime_seconds}; HttpOnly; SameSite=Lax{secure}"
    return b"set-cookie", f"{SESSION_COOKIE}={value}; {attributes}".encode()
