"""Messages are stored with a commit and found by scans; on PostgreSQL whatever the order of commits."""

from collections.abc import Iterator

import pytest

from restante.database.bus import node_messages
from restante.database.bus.node_messages import PUBLISH_GRACE_MS, RETENTION_MS, NodeMessage
from restante.database.database import Database
from restante.database.engine import Engine
from restante.database.migrate import migrate
from tests.conftest import ManualClock


@pytest.fixture
def database(engine: Engine) -> Iterator[Database]:
    migrate(engine)
    database = Database(engine)
    yield database
    database.close()


def scanned(database: Database, horizon: int | None, node: str = "me") -> list[str]:
    return [each.message for each in database.read_now(node_messages.scan, node, horizon).found]


def test_scan_finds_messages_of_other_nodes_from_the_horizon_on(database: Database, clock: ManualClock) -> None:
    database.write_now(node_messages.store, "other", "before")
    horizon = database.read_now(node_messages.scan, "me", None).horizon
    stored = database.write_now(node_messages.store, "other", "after")
    database.write_now(node_messages.store, "me", "my own")
    clock.advance(PUBLISH_GRACE_MS / 1000)
    scan = database.read_now(node_messages.scan, "me", horizon)
    assert scan.found == [NodeMessage(stored.commit_id, "other", "after")]
    assert scan.now_ms == clock.now_ms
    assert scanned(database, scan.horizon) == []


def test_message_about_to_be_published_is_left_for_the_next_scan(database: Database, clock: ManualClock) -> None:
    horizon = database.read_now(node_messages.scan, "me", None).horizon
    database.write_now(node_messages.store, "other", "new")
    assert scanned(database, horizon) == []
    clock.advance(PUBLISH_GRACE_MS / 1000)
    assert scanned(database, horizon) == ["new"]


def test_message_can_be_read_by_its_number_until_it_is_deleted(database: Database, clock: ManualClock) -> None:
    stored = database.write_now(node_messages.store, "other", "long")
    assert database.read_now(node_messages.read_message, stored.commit_id) == "long"
    clock.advance(RETENTION_MS / 1000)
    assert database.write_now(node_messages.delete_old) == 0
    clock.advance(0.001)
    assert database.write_now(node_messages.delete_old) == 1
    assert database.read_now(node_messages.read_message, stored.commit_id) is None
