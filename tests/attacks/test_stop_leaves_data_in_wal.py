"""The database file of a stopped server contains all data, without the files beside it (promise 15 of SECURITY.md)."""

import shutil
import signal
import sqlite3
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from restante.cli.database import open_embedded_database
from restante.database.sqlite import SqliteEngine
from restante.identity.callers import Role
from restante.identity.people import users
from restante.server.data_folder import DataFolder
from tests.faults.client import DeviceHandle
from tests.faults.device_server import DeviceServer, running_device_server

pytestmark = pytest.mark.slow

SECOND = "second@example.com"


def stop(server: DeviceServer) -> None:
    server.process.send_signal(signal.SIGTERM)
    assert server.process.wait_for_exit() == 0, server.process.log_text()


def wait_for_signals(server: DeviceServer, device: DeviceHandle, count: int) -> None:
    client, cursor, received = server.client_of(device), "0-0", 0
    while received < count:
        data = client.poll(cursor, wait=30).data
        received, cursor = received + len(data["signals"]), data["cursor"]


def content_of_file_alone(server: DeviceServer, folder: Path) -> tuple[int, list[str]]:
    """Copy only the database file, and return the number of signals and the users in the copy."""
    copied = shutil.copy(DataFolder(server.data).database_path, folder / "copy.db")
    with closing(sqlite3.connect(copied)) as conn:
        (count,) = conn.execute("SELECT COUNT(*) FROM device_update_log").fetchone()
        return count, [email for (email,) in conn.execute("SELECT email FROM users ORDER BY id")]


@pytest.mark.parametrize("has_open_command", [False, True], ids=["alone", "beside-a-command"])
def test_file_copied_alone_from_a_stopped_folder_has_all_data(tmp_path: Path, has_open_command: bool) -> None:
    with running_device_server(tmp_path) as server, ExitStack() as command:
        device = server.add_device()
        database = command.enter_context(open_embedded_database(DataFolder(server.data)))
        database.write_now(users.add, SECOND, "no hash", Role.viewer)
        if not has_open_command:
            command.close()
        assert [server.send(device, number=number).status for number in range(3)] == [202] * 3
        wait_for_signals(server, device, 3)
        stop(server)
        assert content_of_file_alone(server, tmp_path) == (3, ["owner@example.com", SECOND])


def test_command_that_outlives_the_server_leaves_all_data_in_the_file(tmp_path: Path) -> None:
    """A snapshot that is open while the server stops keeps the last changes out of the file. Its end moves them."""
    with running_device_server(tmp_path) as server:
        device = server.add_device()
        with open_embedded_database(DataFolder(server.data)) as database:
            with closing(SqliteEngine(DataFolder(server.data).database_path).connect(writable=False)) as snapshot:
                snapshot.begin()
                users.list_all(snapshot)
                assert server.send(device, number=1).status == 202
                wait_for_signals(server, device, 1)
                stop(server)
                assert "not all data could be moved into the database file" in server.process.log_text()
            database.write_now(users.add, SECOND, "no hash", Role.viewer)
            database.read_now(users.list_all)
        assert content_of_file_alone(server, tmp_path) == (1, ["owner@example.com", SECOND])
