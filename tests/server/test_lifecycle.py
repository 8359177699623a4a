"""What starts, what is heard and how it stops, inside one process; real processes are stopped in tests/faults."""

import asyncio
import socket
from pathlib import Path

import pytest

from restante.core.backoff import Backoff
from restante.database.connection import Connection
from restante.database.errors import DatabaseUnavailable
from restante.database.writer import ForeignCommit
from restante.delivery.signals import Signal
from restante.identity.callers import DeviceCaller, DeviceRevoked
from restante.server import lifecycle
from restante.server.app import opened
from restante.server.setting_kinds import Address
from restante.server.settings import Settings
from restante.updates import rollout
from restante.web.answer import Answer
from tests.server.serving import Served


def test_a_taken_address_is_a_clear_error() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with (
            pytest.raises(OSError, match=f"cannot listen on 127.0.0.1:{port}: Address already in use"),
            lifecycle.listening(Address("127.0.0.1", port)),
        ):
            pass


def test_any_free_port_can_be_asked_for() -> None:
    with lifecycle.listening(Address("127.0.0.1", 0)) as sock:
        assert sock.getsockname()[1] > 0
    with lifecycle.listening(Address("::1", 0)) as sock:
        assert sock.family == socket.AF_INET6


async def test_a_database_that_goes_away_while_the_node_starts_is_given_a_while(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with opened(Settings(data=tmp_path)) as node:
        start, failures = node.tokens.start, [DatabaseUnavailable("starting up")] * 2

        async def start_at_last() -> None:
            if failures:
                raise failures.pop()
            await start()

        monkeypatch.setattr(node.tokens, "start", start_at_last)
        async with lifecycle.running(node):
            assert failures == []


async def test_one_that_stays_away_ends_the_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def start_never() -> None:
        raise DatabaseUnavailable("starting up")

    monkeypatch.setattr(lifecycle, "READ_AGAIN", Backoff(0.001, 0.001, 3))
    with opened(Settings(data=tmp_path)) as node:
        monkeypatch.setattr(node.tokens, "start", start_never)
        with pytest.raises(DatabaseUnavailable):
            async with lifecycle.running(node):
                pass


def test_a_revoked_devices_tokens_are_forgotten_when_heard(tmp_path: Path) -> None:
    served = Served(tmp_path)
    try:
        tokens = served.node.tokens
        served.call(tokens.remember, b"token", DeviceCaller(7, 1, 2e10))
        assert served.call(tokens.cached, b"token", 0.0) is not None
        served.call(lifecycle.hear, served.node, [DeviceRevoked(7)])
        assert served.call(tokens.cached, b"token", 0.0) is None
    finally:
        served.close()


def test_a_rollout_is_heard_at_once_and_found_again_at_the_start(tmp_path: Path) -> None:
    served = Served(tmp_path)
    node = served.node
    started = node.database.write_now(rollout.start, 3600, 7)
    served.until(lambda: node.poll.rollout == started)
    served.close()
    again = Served(tmp_path)
    try:
        assert again.node.poll.rollout == started
        again.node.database.write_now(rollout.stop)
        again.until(lambda: again.node.poll.rollout is None)
    finally:
        again.close()


def test_what_could_not_be_heard_is_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    served = Served(tmp_path)
    try:
        node = served.node

        def publish(conn: Connection) -> None:
            node.append(conn, 7, [Signal("test", conn.now_ms, {})])

        answers: list[Answer] = []
        served.call(node.poll.start, 7, b"0-0", 10, True, answers.append)
        served.until(lambda: node.poll.bell.waiting_count == 1)
        monkeypatch.setattr(node.poll, "hear", lambda _published: 1 / 0)
        node.database.write_now(publish)
        served.until(lambda: bool(answers))
        assert answers[0].status == 200
    finally:
        served.close()


def test_another_processes_change_is_caught_up_with(tmp_path: Path) -> None:
    served = Served(tmp_path)
    try:
        node = served.node
        # As another process would: the change is in the database, and nobody here announced it.
        served.call(setattr, node.poll, "rollout", None)
        node.database.write_now(rollout.start, 3600, 7)
        served.call(setattr, node.poll, "rollout", None)
        served.call(lifecycle.hear, node, [ForeignCommit()])
        served.until(lambda: node.poll.rollout is not None)
    finally:
        served.close()


def test_the_background_services_end_with_the_server(tmp_path: Path) -> None:
    served = Served(tmp_path)

    async def names() -> set[str]:
        return {task.get_name() for task in asyncio.all_tasks()}

    assert {service.name for service in served.node.services()} <= served.wait_for(names())
    served.close()
    assert served.loop.is_closed()
