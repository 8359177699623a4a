from pathlib import Path

import pytest

from restante.database.connection import Connection
from restante.database.errors import AlreadyRunning
from restante.delivery import log, outbox
from restante.delivery.signals import Signal
from restante.identity import signing_keys
from restante.identity.master_key import MasterKeyError
from restante.server.app import Node, opened
from restante.server.setting_kinds import DatabaseAddress
from restante.server.settings import Settings


def emit(node: Node, device_id: int) -> None:
    def change(conn: Connection) -> None:
        node.emit(conn, device_id, Signal("test", conn.now_ms, {}))

    node.database.write_now(change)


def published(node: Node, device_id: int) -> int:
    return node.database.read_now(log.read_head, device_id).newest.n


def test_a_folder_is_one_nodes_at_a_time(tmp_path: Path) -> None:
    settings = Settings(data=tmp_path)
    with opened(settings), pytest.raises(AlreadyRunning), opened(settings):
        pass
    with opened(settings):
        pass


def test_signals_go_through_the_outbox(tmp_path: Path) -> None:
    with opened(Settings(data=tmp_path)) as node:
        emit(node, 1)
        assert published(node, 1) == 0
        assert node.database.read_now(outbox.counts)["pending"] == 1


def test_signals_go_straight_to_the_log_where_so_configured(tmp_path: Path) -> None:
    with opened(Settings(data=tmp_path, direct_signals=True)) as node:
        emit(node, 1)
        assert published(node, 1) == 1
        assert node.database.read_now(outbox.counts)["pending"] == 0


def test_a_direct_signal_does_not_overtake_what_waits_in_the_outbox(tmp_path: Path) -> None:
    with opened(Settings(data=tmp_path)) as node:
        emit(node, 1)
    with opened(Settings(data=tmp_path, direct_signals=True)) as node:
        emit(node, 1)
        emit(node, 2)
        assert (published(node, 1), published(node, 2)) == (0, 1)
        assert node.database.read_now(outbox.counts)["pending"] == 2


def test_as_many_signals_are_kept_as_configured(tmp_path: Path) -> None:
    with opened(Settings(data=tmp_path, direct_signals=True, log_keep_signals=10)) as node:
        for _ in range(10 + log.TRIM_SLACK + 1):
            emit(node, 1)
        head = node.database.read_now(log.read_head, 1)
        assert head.retained == 10


def test_no_two_routes_claim_one_path(tmp_path: Path) -> None:
    with opened(Settings(data=tmp_path)) as node:
        rows = [(route.method, route.path) for route in node.routes()]
        assert len(rows) == len(set(rows))
        node.application()


async def test_a_lost_or_foreign_master_key_stops_the_start(tmp_path: Path) -> None:
    with opened(Settings(data=tmp_path)) as node:
        await node.tokens.start()
    key = tmp_path / "master.key"
    kept = key.read_text()
    key.unlink()
    with pytest.raises(MasterKeyError, match=str(key)), opened(Settings(data=tmp_path)):
        pass
    assert not key.exists()
    with (
        pytest.raises(MasterKeyError, match="RESTANTE_MASTER_KEY"),
        opened(Settings(data=tmp_path, master_key="ab" * 32)),
    ):
        pass
    with opened(Settings(data=tmp_path, master_key=kept)) as node:
        assert len(node.database.read_now(signing_keys.verifying)) == 1


def on_postgres(folder: Path, url: str) -> Settings:
    return Settings(data=folder, database=DatabaseAddress(url), database_writers=2, database_readers=2)


def test_nodes_share_a_database_and_leave_each_others_claims_alone(tmp_path: Path, empty_postgres_url: str) -> None:
    settings = on_postgres(tmp_path, empty_postgres_url)
    with opened(settings) as node:
        emit(node, 1)
        assert node.database.write_now(outbox.claim, "first", 30, 10) == 1
        with opened(settings) as other:
            assert other.database.write_now(outbox.claim, "other", 30, 10) == 0
            assert len(node.database.write_now(outbox.held_by, "first")) == 1
    assert not (tmp_path / "restante.db").exists()


async def test_a_node_with_another_master_key_does_not_start(tmp_path: Path, empty_postgres_url: str) -> None:
    with opened(on_postgres(tmp_path / "a", empty_postgres_url)) as node:
        await node.signing_keys.load()
    with pytest.raises(MasterKeyError), opened(on_postgres(tmp_path / "b", empty_postgres_url)):
        pass
    (tmp_path / "b" / "master.key").write_bytes((tmp_path / "a" / "master.key").read_bytes())
    (tmp_path / "b" / "master.key").chmod(0o600)
    with opened(on_postgres(tmp_path / "b", empty_postgres_url)) as node:
        await node.signing_keys.load()
