"""Runs commands in this process, on a real data folder of their own, as a user would call them."""

import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest
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

OWNER = "owner@example.com"


class Restante(NamedTuple):
    """The command line on one data folder."""

    data: Path

    def __call__(self, *args: str, stdin: str | bytes | None = None) -> Result:
        return CliRunner().invoke(app, [*args, "--data", str(self.data)], input=stdin)

    def ok(self, *args: str, stdin: str | None = None) -> str:
        """The output of a command that succeeds."""
        result = self(*args, stdin=stdin)
        assert result.exit_code == 0, result.output
        assert result.stderr == ""
        return result.stdout

    def json(self, *args: str, stdin: str | None = None) -> Any:
        printed = self.ok(*args, "--json", stdin=stdin)
        assert printed.count("\n") == 1
        return json.loads(printed)

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


@pytest.fixture
def restante(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Restante:
    for variable in [name for name in os.environ if name.startswith("RESTANTE_")]:
        monkeypatch.delenv(variable)
    monkeypatch.chdir(tmp_path)
    return Restante(tmp_path / "data")


AddDevice = Callable[[str], int]


@pytest.fixture
def add_device(restante: Restante) -> AddDevice:
    """Registers a device of that name; all devices have one owner."""

    def add(name: str) -> int:
        with restante.database() as database:
            return database.write_now(_registered, name)

    return add


def _registered(conn: Connection, name: str) -> int:
    owner = users.find_by_email(conn, OWNER)
    owner_id = owner.id if owner else users.add(conn, OWNER, "no hash", Role.viewer)
    details = DeviceDetails(f"public id of {name}", bytes(32), bytes(32), platform="linux", name=name)
    return devices.register(conn, owner_id, details).id
