"""Where a request came from and where it was sent to, as far as it can be told."""

import re

from starlette.requests import Request

from restante.core.errors import BadInput

TEXT_LENGTH_MAX = 255
_HOST = re.compile(r"[A-Za-z0-9._-]+(:[0-9]{1,5})?|\[[0-9A-Fa-f:.]+\](:[0-9]{1,5})?")


def address_of(request: Request) -> str:
    return request.client.host if request.client else ""


def user_agent_of(request: Request) -> str:
    """What the caller calls itself, made safe to keep and to show."""
    said = request.headers.get("user-agent", "")
    return "".join(character for character in said if character.isprintable())[:TEXT_LENGTH_MAX]


def base_url_of(request: Request, public_url: str | None) -> str:
    """The address people reach us under: the configured one, else the one this request was sent to."""
    if public_url is not None:
        return public_url.rstrip("/")
    host = request.headers.get("host", "")
    if not _HOST.fullmatch(host):
        raise BadInput("Host", "a host name or address, with or without a port")
    return f"{request.scope['scheme']}://{host}"
