import pytest
from starlette.requests import Request

from restante.core.errors import BadInput
from restante.web.origin import address_of, base_url_of, user_agent_of


def request(client: tuple[str, int] | None = None, **headers: str) -> Request:
    raw = [(name.replace("_", "-").encode(), value.encode("latin-1")) for name, value in headers.items()]
    return Request({"type": "http", "scheme": "https", "headers": raw, "client": client})


def test_the_address() -> None:
    assert address_of(request(("192.0.2.1", 5))) == "192.0.2.1"
    assert address_of(request()) == ""


def test_what_the_caller_calls_itself_is_made_safe() -> None:
    assert user_agent_of(request()) == ""
    assert user_agent_of(request(user_agent="agent/1\x00\x1b[31m")) == "agent/1[31m"
    assert len(user_agent_of(request(user_agent="x" * 1000))) == 255


@pytest.mark.parametrize("host", ["restante.example", "restante.example:8443", "127.0.0.1:1", "[::1]:8080"])
def test_the_address_people_reach_us_under_is_the_requests_own(host: str) -> None:
    assert base_url_of(request(host=host), None) == f"https://{host}"


def test_the_configured_address_wins() -> None:
    assert base_url_of(request(host="internal"), "https://restante.example/") == "https://restante.example"


@pytest.mark.parametrize("host", ["", "[::1", "a b", "evil.example/path", "user@evil.example", "a:b"])
def test_a_host_that_is_none(host: str) -> None:
    with pytest.raises(BadInput):
        base_url_of(request(host=host), None)
    with pytest.raises(BadInput):
        base_url_of(request(), None)
