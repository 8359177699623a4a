"""`restante login` against a real server: in a browser, and with a key."""

import re
from collections.abc import Iterator

import httpx
import pytest
from restante_client.operator.client import SignInCode
from typer.testing import CliRunner, Result

from restante.cli.main import app
from restante.cli.remote import profiles, sign_in
from restante.identity import api_keys
from restante.identity.grants import Role
from restante.identity.people import passwords, users
from tests.server.live_server import LiveServer

EMAIL, PASSWORD = "ada@example.com", "correct horse battery"


def run(*args: str, stdin: str | None = None) -> Result:
    return CliRunner().invoke(app, list(args), input=stdin)


@pytest.fixture(scope="module")
def person(server: LiveServer) -> int:
    return server.node.database.write_now(users.add, EMAIL, passwords.hash_password(PASSWORD), Role.viewer)


@pytest.fixture
def url(server: LiveServer) -> str:
    return f"http://127.0.0.1:{server.fast_port}"


class Browser:
    """A person with a browser: signs in, reads the page of the code, and presses a button."""

    def __init__(self, url: str) -> None:
        self._http = httpx.Client(base_url=url, timeout=30)
        self.page = ""

    def decide(self, code: SignInCode, decision: str) -> None:
        form = {"email": EMAIL, "password": PASSWORD, "user_code": code["user_code"]}
        assert self._http.post("/device/sign-in", data=form).status_code == 303
        self.page = self._http.get("/device", params={"user_code": code["user_code"]}).text
        token = re.search(r'name="form_token" value="([^"]+)"', self.page)
        assert token is not None
        sent = {"form_token": token[1], "user_code": code["user_code"], "decision": decision}
        assert self._http.post("/device", data=sent).status_code == 200

    def close(self) -> None:
        self._http.close()


@pytest.fixture
def browser(url: str, person: int) -> Iterator[Browser]:
    browser = Browser(url)
    yield browser
    browser.close()


def test_person_signs_in_and_out(url: str, person: int, browser: Browser, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sign_in, "_show", lambda code: browser.decide(code, "approve"))
    done = run("login", url, "--profile", "here")
    assert (done.exit_code, done.stdout) == (0, f"Signed in to {url} as {EMAIL} (viewer), profile here.\n"), done.output
    assert "Sign in this command line?" in browser.page
    token = profiles.load().profiles["here"].token
    assert token.startswith("rp_")
    assert f"{EMAIL}\n" in run("whoami").stdout
    assert run("ca", "list").exit_code == 0
    assert httpx.get(f"{url}/apiv1/me/devices", headers={"Cookie": f"restante_session={token}"}).status_code == 401
    assert run("logout").exit_code == 0
    assert run("profile", "list", "--json").stdout == '{"items":[],"next":null}\n'
    assert httpx.get(f"{url}/apiv1/me/devices", headers={"Authorization": f"Bearer {token}"}).status_code == 401


def test_denied_sign_in_stores_nothing(url: str, browser: Browser, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sign_in, "_show", lambda code: browser.decide(code, "deny"))
    refused = run("login", url)
    assert (refused.exit_code, refused.stderr) == (1, "restante: the sign-in was denied\n")
    assert not profiles.path().exists()


def test_code_of_a_command_line_is_no_code_of_a_device(url: str, browser: Browser) -> None:
    """The approval of one never opens the other."""
    started = httpx.post(f"{url}/auth/cli", json={"action": "start"}).json()["data"]
    browser.decide(started, "approve")
    poll = {"action": "device_poll", "device_code": started["device_code"]}
    assert httpx.post(f"{url}/auth/device", json=poll).status_code in (200, 404)
    assert "registration_code" not in httpx.post(f"{url}/auth/device", json=poll).text
    device = httpx.post(f"{url}/auth/device", json={"action": "device_start"}).json()["data"]
    polled = httpx.post(f"{url}/auth/cli", json={"action": "poll", "device_code": device["device_code"]})
    assert "access_token" not in polled.text


def test_key_from_a_file_and_profiles(server: LiveServer, url: str) -> None:
    key = server.node.database.write_now(api_keys.create, "deployer", Role.operator)[1]
    done = run("login", url, "--api-key-file", "-", "--profile", "a", stdin=key + "\n")
    assert (done.exit_code, "as deployer (operator)" in done.stdout) == (0, True), done.output
    assert run("login", url, "--api-key-file", "-", "--profile", "b", stdin=key).exit_code == 0
    assert run("profile", "use", "a").exit_code == 0
    assert profiles.load().current == "a"
    assert key not in run("profile", "list").stdout
    assert run("logout", "--profile", "b").exit_code == 0
    wrong = run("login", url, "--api-key-file", "-", stdin="rk_wrong")
    assert (wrong.exit_code, "does not accept this credential" in wrong.stderr) == (1, True)
    assert "begins with rk_" in run("login", url, "--api-key-file", "-", stdin="nonsense").stderr
