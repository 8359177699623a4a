"""The address of a request's sender, and its user agent."""

from starlette.requests import Request

TEXT_LENGTH_MAX = 255


def address_of(request: Request) -> str:
    return request.client.host if request.client else ""


def user_agent_of(request: Request) -> str:
    """The User-Agent header, without control characters and bounded in length, safe to store and show."""
    user_agent = request.headers.get("user-agent", "")
    return "".join(character for character in user_agent if character.isprintable())[:TEXT_LENGTH_MAX]
