from starlette.requests import Request

from restante.updates.session_cookie import clear_session, set_session


def request(scheme: str) -> Request:
    return Request({"type": "http", "scheme": scheme, "headers": []})


def test_the_cookie_is_out_of_reach_of_scripts_and_other_sites() -> None:
    name, value = set_session(request("http"), "token", 60)
    assert name == b"set-cookie"
    assert value == b"restante_session=token; Path=/; Max-Age=60; HttpOnly; SameSite=Lax"


def test_over_https_it_stays_on_https() -> None:
    assert set_session(request("https"), "token", 60)[1].endswith(b"; Secure")


def test_clearing_it() -> None:
    assert clear_session(request("http"))[1].startswith(b"restante_session=; Path=/; Max-Age=0;")
