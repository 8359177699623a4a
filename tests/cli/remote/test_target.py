"""Which server a command calls: nothing is created, and every error names the next step."""

import socket
import stat
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from restante.cli.main import app
from restante.cli.remote import profiles
from restante.cli.remote.profiles import Profile, Profiles
from restante.identity import api_keys
from restante.identity.grants import Role
from tests.cli.conftest import Restante
from tests.server.live_server import LiveServer


def run(*args: str) -> Result:
    return CliRunner().invoke(app, list(args))


@pytest.fixture
def key(server: LiveServer) -> str:
    return server.node.database.write_now(api_keys.create, "viewer", Role.viewer)[1]


def url(server: LiveServer) -> str:
    return f"http://127.0.0.1:{server.fast_port}"


def test_folder_without_server_is_named_and_not_created(restante: Restante) -> None:
    message = restante.error_line("site", "list")
    assert message.startswith(f"there is no data folder {restante.data}: start a server with `restante serve --data ")
    assert not restante.data.exists()
    restante.data.mkdir()
    assert restante.error_line("device", "revoke", "1", "--yes").startswith(f"no server runs on {restante.data}")
    assert list(restante.data.iterdir()) == []


def test_socket_that_a_killed_server_left_is_explained(restante: Restante) -> None:
    restante.data.mkdir()
    with socket.socket(socket.AF_UNIX) as killed:
        killed.bind(str(restante.data / "restante.sock"))
    assert restante.error_line("site", "list").startswith(f"no server runs on {restante.data}")


def test_folder_with_a_long_path_is_explained(tmp_path: Path) -> None:
    refused = run("site", "list", "--data", str(tmp_path / ("x" * 100)))
    assert (refused.exit_code, "a Unix socket allows 107" in refused.stderr) == (1, True)


def test_environment_names_server_and_key(server: LiveServer, key: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RESTANTE_SERVER", url(server))
    assert "sign in with `restante login" in run("site", "list").stderr
    monkeypatch.setenv("RESTANTE_API_KEY", key)
    assert "key\n" in run("whoami").stdout
    assert run("site", "list", "--json").exit_code == 0
    refused = run("site", "create", "x")
    assert (refused.exit_code, "this needs the role admin" in refused.stderr) == (1, True)
    assert key not in refused.output


def test_flag_counts_more_than_the_environment(
    server: LiveServer, remote: Restante, key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RESTANTE_SERVER", "http://127.0.0.1:1")
    assert remote.json("whoami")["kind"] == "local"
    monkeypatch.setenv("RESTANTE_API_KEY", key)
    assert run("whoami", "--server", url(server)).exit_code == 0
    refused = run("whoami", "--server", url(server), "--profile", "x")
    assert (refused.exit_code, "to be given without" in refused.stderr) == (1, True)


def test_wrong_url_and_wrong_key_are_explained(server: LiveServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RESTANTE_API_KEY", "rk_wrong")
    assert "http://… or https://…" in run("site", "list", "--server", "ftp://x").stderr
    refused = run("site", "list", "--server", url(server))
    assert (refused.exit_code, "restante login" in refused.stderr, "rk_wrong" in refused.output) == (1, True, False)


def test_profiles_are_private_and_expire(server: LiveServer, key: str) -> None:
    stored = Profiles(current="x", profiles={"x": Profile(url=url(server), token=key)})
    profiles.save(stored)
    file = profiles.path()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert run("whoami").exit_code == 0
    assert key not in repr(profiles.load())
    stored.profiles["x"].expires_at = 1
    profiles.save(stored)
    assert "has ended: sign in again" in run("whoami").stderr
    assert "there are: x" in run("whoami", "--profile", "y").stderr
    file.chmod(0o644)
    assert "chmod 600" in run("whoami").stderr
