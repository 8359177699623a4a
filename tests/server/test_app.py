from pathlib import Path

import pytest

from restante.database.connection import Connection
from restante.database.errors import AlreadyRunning
from restante.delivery.log import log
from restante.delivery.log.signals import Signal
from restante.delivery.outbox import outbox
from restante.identity import signing_keys
from restante.identity.master_key import MasterKeyError
from restante.server.app import Node, opened
from restante.server.config.settings import Settings
from restante.server.config.url_setting_types import DatabaseAddress


def emit(node: Node, device_id: int) -> None:
    def change(conn: Connection) -> None:
        node.outbox.emit(conn, device_id, Signal("test", conn.now_ms, {}))

    node.database.write_now(change)


def published_count(node: Node, device_id: int) -> int:
    return node.database.read_now(log.read_head, device_id).newest.n


def test_data_folder_is_refused_to_a_second_node_until_the_first_ends(tmp_path: Path) -> None:
    settings = Settings(data=tmp_path)
    with opened(settings), pytest.raises(AlreadyRunning), opened(settings):
        pass
    with opened(settings):
        pass


def test_signal_waits_in_the_outbox_by_default(tmp_path: Path) -> None:
    with opened(Settings(data=tmp_path)) as node:
        emit(node, 1)
        assert published_count(node, 1) == 0
        assert node.database.read_now(outbox.counts)["pending"] == 1


def test_signal_is_published_at_once_with_direct_signals(tmp_path: Path) -> None:
    with opened(Settings(data=tmp_path, direct_signals=True)) as node:
        emit(node, 1)
        assert published_count(node, 1) == 1
        assert node.database.read_now(outbox.counts)["pending"] == 0


def test_direct_signal_does_not_overtake_signals_in_the_outbox(tmp_path: Path) -> None:
    with opened(Settings(data=tmp_path)) as node:
        emit(node, 1)
    with opened(Settings(data=tmp_path, direct_signals=True)) as node:
        emit(node, 1)
        emit(node, 2)
        assert (published_count(node, 1), published_count(node, 2)) == (0, 1)
        assert node.database.read_now(outbox.counts)["pending"] == 2


def test_log_keeps_the_configured_number_of_signals(tmp_path: Path) -> None:
    with opened(Settings(data=tmp_path, direct_signals=True, log_keep_signals=10)) as node:
        for _ in range(10 + log.TRIM_SLACK + 1):
            emit(node, 1)
        head = node.database.read_now(log.read_head, 1)
        assert head.retained == 10


def test_no_two_routes_have_the_same_method_and_path(tmp_path: Path) -> None:
    with opened(Settings(data=tmp_path)) as node:
        routes = [(route.method, route.path) for route in node.routes()]
        assert len(routes) == len(set(routes))
        node.application()


async def test_node_with_a_missing_or_wrong_master_key_does_not_start(tmp_path: Path) -> None:
    with opened(Settings(data=tmp_path)) as node:
        await node.identity.device_tokens.start()
    key_path = tmp_path / "master.key"
    original_key = key_path.read_text()
    key_path.unlink()
    with pytest.raises(MasterKeyError, match=str(key_path)), opened(Settings(data=tmp_path)):
        pass
    assert not key_path.exists()
    with (
        pytest.raises(MasterKeyError, match="RESTANTE_MASTER_KEY"),
        opened(Settings(data=tmp_path, master_key="ab" * 32)),
    ):
        pass
    with opened(Settings(data=tmp_path, master_key=original_key)) as node:
        assert len(node.database.read_now(signing_keys.list_verifying)) == 1


def postgres_settings(folder: Path, url: str) -> Settings:
    return Settings(data=folder, database=DatabaseAddress(url), database_writers=2, database_readers=2)


def test_outbox_rows_claimed_by_one_node_are_not_claimed_by_another(tmp_path: Path, empty_postgres_url: str) -> None:
    settings = postgres_settings(tmp_path, empty_postgres_url)
    with opened(settings) as node:
        emit(node, 1)
        assert node.database.write_now(outbox.claim, "first", 30, 10) == 1
        with opened(settings) as other:
            assert other.database.write_now(outbox.claim, "other", 30, 10) == 0
            assert len(node.database.write_now(outbox.leased_rows, "first")) == 1
    assert not (tmp_path / "restante.db").exists()


async def test_second_node_starts_only_with_the_master_key_of_the_first(
    tmp_path: Path, empty_postgres_url: str
) -> None:
    with opened(postgres_settings(tmp_path / "a", empty_postgres_url)) as node:
        await node.identity.signing_keys.load()
    with pytest.raises(MasterKeyError), opened(postgres_settings(tmp_path / "b", empty_postgres_url)):
        pass
    (tmp_path / "b" / "master.key").write_bytes((tmp_path / "a" / "master.key").read_bytes())
    (tmp_path / "b" / "master.key").chmod(0o600)
    with opened(postgres_settings(tmp_path / "b", empty_postgres_url)) as node:
        await node.identity.signing_keys.load()
