"""Start, commit events and stop inside one process. tests/faults stops real processes."""

import asyncio
import socket
from pathlib import Path

import pytest

from restante.core.backoff import Backoff
from restante.core.errors import RestanteError
from restante.database.commit_events import ForeignCommit
from restante.database.connection import Connection
from restante.database.errors import DatabaseUnavailable
from restante.delivery.log.signals import Signal
from restante.identity.callers import DeviceCaller, DeviceRevoked
from restante.server import component_list, lifecycle
from restante.server.app import opened
from restante.server.config.setting_types import Address
from restante.server.config.settings import Settings
from restante.updates.polling import poll_boost
from restante.updates.polling.poll import PollResult
from tests.server.live_server import LiveServer


def test_address_in_use_is_refused_with_the_address_in_the_error() -> None:
    with socket.create_server(("127.0.0.1", 0)) as occupied:
        port = occupied.getsockname()[1]
        with (
            pytest.raises(OSError, match=f"cannot listen on 127.0.0.1:{port}: Address already in use"),
            lifecycle.listening(Address("127.0.0.1", port)),
        ):
            pass


def test_port_zero_binds_any_free_port() -> None:
    with lifecycle.listening(Address("127.0.0.1", 0)) as sock:
        assert sock.getsockname()[1] > 0
    with lifecycle.listening(Address("::1", 0)) as sock:
        assert sock.family == socket.AF_INET6


async def test_start_is_retried_until_the_database_is_available(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with opened(Settings(data=tmp_path)) as node:
        start, failures = node.identity.device_tokens.start, [DatabaseUnavailable("starting up")] * 2

        async def start_after_failures() -> None:
            if failures:
                raise failures.pop()
            await start()

        monkeypatch.setattr(node.identity.device_tokens, "start", start_after_failures)
        async with lifecycle.running(node):
            assert failures == []


async def test_start_fails_if_the_database_stays_unavailable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def fail_to_start() -> None:
        raise DatabaseUnavailable("starting up")

    monkeypatch.setattr(component_list, "START_RETRY", Backoff(0.001, 0.001, 3))
    with opened(Settings(data=tmp_path)) as node:
        monkeypatch.setattr(node.identity.device_tokens, "start", fail_to_start)
        with pytest.raises(DatabaseUnavailable):
            async with lifecycle.running(node):
                pass


def test_revoked_device_loses_its_cached_tokens(tmp_path: Path) -> None:
    server = LiveServer(tmp_path)
    try:
        tokens = server.node.identity.device_tokens
        server.call(tokens.remember, b"token", DeviceCaller(7, 1, 2e10), 2e10)
        assert server.call(tokens.cached, b"token", 0.0) is not None
        server.call(server.node.components.handle_commit_events, [DeviceRevoked(7)])
        assert server.call(tokens.cached, b"token", 0.0) is None
    finally:
        server.close()


def test_poll_boost_takes_effect_at_once_and_survives_a_restart(tmp_path: Path) -> None:
    server = LiveServer(tmp_path)
    node = server.node
    started = node.database.write_now(poll_boost.start, 3600, 7)
    server.wait_until(lambda: node.updates.poll.boost == started)
    server.close()
    restarted = LiveServer(tmp_path)
    try:
        assert restarted.node.updates.poll.boost == started
        restarted.node.database.write_now(poll_boost.stop)
        restarted.wait_until(lambda: restarted.node.updates.poll.boost is None)
    finally:
        restarted.close()


def test_failed_commit_event_handler_makes_parked_polls_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = LiveServer(tmp_path)
    try:
        node = server.node

        def publish(conn: Connection) -> None:
            node.outbox.append(conn, 7, [Signal("test", conn.now_ms, {})])

        results: list[PollResult | RestanteError] = []
        server.call(node.updates.poll.start, 7, b"0-0", 10, True, results.append)
        server.wait_until(lambda: node.updates.poll.parked_count == 1)
        monkeypatch.setattr(node.updates.poll.waiters, "is_waiting", lambda _device_id: 1 / 0)
        node.database.write_now(publish)
        server.wait_until(lambda: bool(results))
        assert isinstance(results[0], PollResult)
        assert [entry.position for entry in results[0].entries]
    finally:
        server.close()


def test_commit_of_another_process_is_read_from_the_database(tmp_path: Path) -> None:
    server = LiveServer(tmp_path)
    try:
        node = server.node
        # Like a commit of another process: the change is in the database, but this node handled no event for it.
        server.call(setattr, node.updates.poll, "boost", None)
        node.database.write_now(poll_boost.start, 3600, 7)
        server.call(setattr, node.updates.poll, "boost", None)
        server.call(node.components.handle_commit_events, [ForeignCommit()])
        server.wait_until(lambda: node.updates.poll.boost is not None)
    finally:
        server.close()


def test_background_services_end_with_the_server(tmp_path: Path) -> None:
    server = LiveServer(tmp_path)

    async def task_names() -> set[str]:
        return {task.get_name() for task in asyncio.all_tasks()}

    assert {service.name for service in server.node.services()} <= server.wait_for(task_names())
    server.close()
    assert server.loop.is_closed()
