"""Runs commands in this process, on a data folder of their own, or against a real server over its Unix socket."""

import json
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import structlog
from typer.testing import CliRunner, Result

from restante.cli.database import open_embedded_database
from restante.cli.main import app
from restante.database.connection import Connection
from restante.database.database import Database
from restante.identity.callers import Role
from restante.identity.people import users
from restante.server.data_folder import DataFolder
from restante.updates.devices import devices
from restante.updates.devices.devices import DeviceDetails
from tests.server.live_server import LiveServer

OWNER = "owner@example.com"


def with_options(args: Sequence[str], *options: str) -> list[str]:
    """The arguments with these options, before a `--` that ends the options: an id may begin with a hyphen."""
    end = args.index("--") if "--" in args else len(args)
    return [*args[:end], *options, *args[end:]]


class Restante(NamedTuple):
    """The command line on one data folder."""

    data: Path

    def __call__(self, *args: str, stdin: str | bytes | None = None) -> Result:
        return CliRunner().invoke(app, with_options(args, "--data", str(self.data)), input=stdin)

    def ok(self, *args: str, stdin: str | None = None) -> str:
        """The output of a command that succeeds."""
        result = self(*args, stdin=stdin)
        assert result.exit_code == 0, result.output
        assert result.stderr == ""
        return result.stdout

    def json(self, *args: str, stdin: str | None = None) -> Any:
        printed = self.ok(*with_options(args, "--json"), stdin=stdin)
        assert printed.count("\n") == 1
        return json.loads(printed)

    def items(self, *args: str) -> Any:
        """The items of a list."""
        return self.json(*args)["items"]

    def error_line(self, *args: str, stdin: str | bytes | None = None) -> str:
        """The one line on stderr of a command that fails as expected and prints nothing else."""
        result = self(*args, stdin=stdin)
        assert result.exit_code == 1, result.output
        assert result.stdout == ""
        assert result.stderr.startswith("restante: ")
        assert result.stderr.count("\n") == 1
        return result.stderr.removeprefix("restante: ").rstrip("\n")

    @contextmanager
    def database(self) -> Iterator[Database]:
        with open_embedded_database(DataFolder(self.data)) as database:
            yield database


@pytest.fixture(autouse=True)
def own_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No settings, no profiles of the person who runs the tests."""
    for variable in [name for name in os.environ if name.startswith("RESTANTE_")]:
        monkeypatch.delenv(variable)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def restante(tmp_path: Path) -> Restante:
    """The command line on a folder that does not exist yet, without a server."""
    return Restante(tmp_path / "data")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveServer]:
    """One server for all tests of a module, without background services."""
    with quiet_server(tmp_path_factory.mktemp("server"), has_services=False) as server:
        yield server


@contextmanager
def quiet_server(folder: Path, *, has_services: bool) -> Iterator[LiveServer]:
    """A server whose log does not go to the output of the commands."""
    before = structlog.get_config()
    with open(os.devnull, "w") as nowhere:
        structlog.configure(logger_factory=structlog.PrintLoggerFactory(nowhere))
        server = LiveServer(folder, has_services=has_services, has_local_socket=True)
        yield server
        server.close()
        structlog.configure(**before)


@pytest.fixture
def remote(server: LiveServer) -> Restante:
    """The command line beside the server of the module."""
    return Restante(server.node.settings.data)


AddDevice = Callable[[str], int]


@pytest.fixture
def add_device(server: LiveServer) -> AddDevice:
    """Registers a device of that name at the server; all devices have one owner."""
    return lambda name: server.node.database.write_now(_registered, name)


def _registered(conn: Connection, name: str) -> int:
    owner = users.find_by_email(conn, OWNER)
    owner_id = owner.id if owner else users.add(conn, OWNER, "no hash", Role.viewer)
    details = DeviceDetails(f"public id of {name}", bytes(32), bytes(32), platform="linux", name=name)
    return devices.register(conn, owner_id, details).id
