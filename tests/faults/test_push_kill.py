"""Events pushed to a real receiver by a server that is killed meanwhile: each arrives, with one and the same bytes."""

import signal
from pathlib import Path

import pytest

from restante.cli.opening import opened_in
from restante.database.connection import Connection
from restante.database.queries import Query
from restante.events import subscriptions
from restante.events.subscriptions import Wish
from restante.server.data_folder import DataFolder
from tests.events import bank
from tests.events.receiver_process import receiving, until
from tests.events.tls_files import make_tls_files
from tests.faults.client import Client
from tests.faults.server_process import ServerProcess, prepare

EVENTS = 40
PATH = "/answer/202"

_STATES = Query("states", "SELECT jti, status FROM event_inbox ORDER BY id")


def add_notified_client(conn: Connection, url: str) -> str:
    client = bank.add_client(conn)
    subscriptions.create(conn, client.id, Wish(url, "4.0", None))
    return client.client_id


def states(data: Path) -> list[str]:
    with opened_in(DataFolder(data)) as database:
        return [row["status"] for row in database.read_now(lambda conn: conn.all(_STATES))]


@pytest.mark.slow
def test_a_killed_server_pushes_on_where_it_was(tmp_path: Path) -> None:
    tls = make_tls_files(tmp_path)
    prepared = prepare(tmp_path / "data")
    with receiving(tls, tmp_path / "record") as receiver:
        with opened_in(DataFolder(prepared.data)) as database:
            client_id = database.write_now(add_notified_client, receiver.url(PATH))
        flags = ("--push-allowed", "127.0.0.0/8,::1", "--push-ca", str(tls.authority))
        server = ServerProcess(prepared.data, *flags)
        try:
            server.start()
            server.wait_until_ready()
            operator = Client(server.port, prepared.key)
            for number in range(EVENTS):
                event = {"client_id": client_id, "sub": f"https://bank.example/{number}", "events": {"urn:x:y": {}}}
                assert operator.ask("POST", "/admin/events", event).status == 201
            operator.close()
            until(lambda: len(receiver.bodies(PATH)) >= EVENTS // 8, "the first pushes")
            server.kill()
            server.start()
            server.wait_until_ready()
            until(lambda: len(set(receiver.bodies(PATH))) == EVENTS, "all pushes")
            server.tell(signal.SIGTERM)
            server.wait_for_exit()
        finally:
            server.end()
        assert states(prepared.data) == ["acknowledged"] * EVENTS
        # In their order, but for what came again after the kill.
        first_seen = list(dict.fromkeys(receiver.bodies(PATH)))
        assert len(first_seen) == EVENTS
        assert len(receiver.bodies(PATH)) <= EVENTS + 1
