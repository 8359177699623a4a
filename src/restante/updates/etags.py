"""Version numbers as entity tags: `"7"` going out; bare, quoted and with `W/` coming in."""

from restante.core.errors import BadInput
from restante.web.ask import INT64_MAX, Ask, parse_int


def version_etag(version: int) -> tuple[bytes, bytes]:
    return (b"etag", b'"%d"' % version)


def is_known(ask: Ask, version: int) -> bool:
    """Whether the client says, by If-None-Match, that it has this version."""
    tags = [_bare(tag) for value in ask.request.headers.getlist("if-none-match") for tag in value.split(",")]
    return "*" in tags or str(version) in tags


def expected_version(ask: Ask) -> int | None:
    """The version the client wants to change, by If-Match; None: it does not say; 0: there is none yet."""
    values = ask.request.headers.getlist("if-match")
    if not values:
        return None
    if len(values) > 1:
        raise BadInput("If-Match", "at most one value")
    return parse_int("If-Match", _bare(values[0]), 0, INT64_MAX)


def _bare(tag: str) -> str:
    tag = tag.strip().removeprefix("W/")
    return tag[1:-1] if len(tag) > 1 and tag[0] == tag[-1] == '"' else tag
