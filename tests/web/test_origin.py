from starlette.requests import Request

from restante.web.origin import address_of, user_agent_of


def request(client: tuple[str, int] | None = None, **headers: str) -> Request:
    raw = [(name.replace("_", "-").encode(), value.encode("latin-1")) for name, value in headers.items()]
    return Request({"type": "http", "scheme": "https", "headers": raw, "client": client})


def test_address_is_clients_host() -> None:
    assert address_of(request(("192.0.2.1", 5))) == "192.0.2.1"
    assert address_of(request()) == ""


def test_user_agent_is_sanitized() -> None:
    assert user_agent_of(request()) == ""
    assert user_agent_of(request(user_agent="agent/1\x00\x1b[31m")) == "agent/1[31m"
    assert len(user_agent_of(request(user_agent="x" * 1000))) == 255
