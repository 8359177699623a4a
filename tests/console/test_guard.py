"""The guard in front of the console's pages: session, grants, form token, origin, headers, password."""

import re

import httpx
import pytest

from restante.console.pages import local_path
from tests.console.console_server import ConsoleServer


def test_browser_is_sent_from_the_root_to_the_console(server: ConsoleServer) -> None:
    with server.client(None) as nobody:
        response = nobody.get("/")
        assert (response.status_code, response.headers["location"]) == (303, "/console")


def test_program_gets_404_in_json_at_the_root(server: ConsoleServer) -> None:
    response = httpx.get(server.base_url, headers={"accept": "application/json"}, timeout=60)
    assert response.status_code == 404
    assert response.json() == {"error": {"code": 5003, "what": "there is nothing at this path"}}


def test_stranger_is_asked_to_sign_in_and_returns_to_the_page(server: ConsoleServer) -> None:
    with server.client(None) as nobody:
        asked = nobody.get("/console/outbox?status=FAILED")
        assert asked.status_code == 303
        assert asked.headers["location"] == "/console/sign-in?next=%2Fconsole%2Foutbox%3Fstatus%3DFAILED"
        form = nobody.get(asked.headers["location"])
        assert 'name="next" value="/console/outbox?status=FAILED"' in form.text


def test_sign_in_starts_a_session_and_wrong_password_does_not(server: ConsoleServer) -> None:
    with server.client(None) as nobody:
        refused = nobody.sign_in("admin", "wrong password")
        assert refused.status_code == 401
        assert "The e-mail or the password is wrong." in refused.text
        assert "wrong password" not in refused.text.replace("the password is wrong", "")
        accepted = nobody.sign_in("admin")
        assert (accepted.status_code, accepted.headers["location"]) == (303, "/console")
        assert "HttpOnly" in accepted.headers["set-cookie"]
        assert nobody.get("/console/outbox").status_code == 200


def test_sign_out_ends_the_session(server: ConsoleServer) -> None:
    with server.client("admin") as admin:
        cookies = dict(admin.http.cookies)
        assert admin.post("/console/sign-out").status_code == 303
        stolen = httpx.get(f"{server.base_url}/console", cookies=cookies, timeout=60)
        assert stolen.status_code == 303


@pytest.mark.parametrize("path", ["/console/sign-in", "/console", "/console/nothing-here", "/console/outbox"])
def test_every_page_forbids_inline_and_foreign_content(server: ConsoleServer, path: str) -> None:
    with server.client(None if path.endswith("sign-in") else "admin") as client:
        response = client.get(path)
    policy = response.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "script-src 'self'" in policy
    assert "unsafe" not in policy
    assert "frame-ancestors 'none'" in policy
    assert response.headers["cache-control"] == "no-store"
    assert not re.search(r"<script(?![^>]*src=)|<style| style=| on[a-z]+=", response.text)


def test_form_without_the_token_of_the_session_is_refused(server: ConsoleServer) -> None:
    with server.client("admin") as admin, server.client("admin") as other_session:
        for token in ("", "garbage", other_session.form_token()):
            refused = admin.post("/console/outbox/retry", token=token)
            assert refused.status_code == 403
            assert "does not belong to your session" in refused.text


def test_form_from_another_origin_is_refused(server: ConsoleServer) -> None:
    with server.client("admin") as admin:
        for origin in ("https://evil.example", server.base_url.replace("http:", "https:"), "null"):
            assert admin.post("/console/outbox/retry", origin=origin).status_code == 403


def test_action_after_the_session_ended_is_refused(server: ConsoleServer) -> None:
    with server.client("admin") as admin:
        token = admin.form_token()
        admin.post("/console/sign-out", token=token)
        assert admin.post("/console/outbox/retry", token=token).status_code == 401


def test_body_that_is_no_form_is_refused(server: ConsoleServer) -> None:
    with server.client("admin") as admin:
        response = admin.http.post("/console/outbox/retry", json={}, headers={"origin": server.base_url})
        assert response.status_code == 415


def test_unknown_page_is_not_found_and_keeps_the_menu(server: ConsoleServer) -> None:
    with server.client("admin") as admin:
        response = admin.get("/console/nothing-here")
        assert response.status_code == 404
        assert "There is no such page" in response.text
        assert 'href="/console/outbox"' in response.text


@pytest.mark.parametrize(
    ("given", "followed"),
    [
        ("/console/outbox?status=FAILED", "/console/outbox?status=FAILED"),
        ("/console", "/console"),
        ("https://evil.example", "/console"),
        ("//evil.example", "/console"),
        ("/console//evil.example", "/console"),
        ("/console\\evil.example", "/console"),
        ("/consoleevil", "/console"),
        ("/device", "/console"),
        ("", "/console"),
        (None, "/console"),
    ],
)
def test_redirect_after_sign_in_stays_in_the_console(given: str | None, followed: str) -> None:
    assert local_path(given) == followed
