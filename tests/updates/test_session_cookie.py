import pytest
from starlette.requests import Request

from restante.updates.session_cookie import SessionCookie


def request(scheme: str) -> Request:
    return Request({"type": "http", "scheme": scheme, "headers": []})


def test_the_cookie_is_out_of_reach_of_scripts_and_other_sites() -> None:
    name, value = SessionCookie(None).given(request("http"), "token", 60)
    assert name == b"set-cookie"
    assert value == b"restante_session=token; Path=/; Max-Age=60; HttpOnly; SameSite=Lax"


@pytest.mark.parametrize(
    ("public_url", "scheme", "is_secure"),
    [
        (None, "http", False),
        (None, "https", True),
        ("http://restante.example", "http", False),
        ("http://restante.example", "https", True),
        ("https://restante.example", "http", True),
        ("HTTPS://restante.example", "http", True),
        ("https://restante.example", "https", True),
    ],
)
def test_where_people_come_by_https_it_stays_on_https(public_url: str | None, scheme: str, is_secure: bool) -> None:
    cookie = SessionCookie(public_url)
    for _, value in (cookie.given(request(scheme), "token", 60), cookie.cleared(request(scheme))):
        assert value.endswith(b"; Secure") is is_secure


def test_clearing_it() -> None:
    assert SessionCookie(None).cleared(request("http"))[1].startswith(b"restante_session=; Path=/; Max-Age=0;")
