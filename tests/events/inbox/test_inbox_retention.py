import pytest

from restante.core.events.poll_acks import Fault, verdicts_of
from restante.database.database import Database
from restante.database.queries import Query
from restante.events.inbox import inbox, inbox_retention
from restante.events.inbox.inbox import InboxPollRequest
from tests.conftest import START_MS, ManualClock
from tests.events import inbox_fixture
from tests.events.default_options import inbox_options
from tests.events.inbox_fixture import PollingClient

DAY = 86_400
_COUNTS = Query(
    "counts",
    """SELECT (SELECT COUNT(*) FROM event_inbox) AS events, (SELECT COUNT(*) FROM event_texts) AS texts,
              (SELECT COUNT(*) FROM event_hand_outs) AS records""",
)
_LAST_POLL = Query("last_poll", "SELECT last_poll_at FROM event_clients WHERE id = :client")


def counts(database: Database) -> tuple[int, ...]:
    row = database.read_now(lambda conn: conn.one(_COUNTS))
    assert row is not None
    return (row["events"], row["texts"], row["records"])


def poll(database: Database, client: PollingClient, *ack: str, errs: tuple[str, ...] = (), limit: int = 100) -> None:
    request = InboxPollRequest(client.id, limit, verdicts_of(ack, dict.fromkeys(errs, Fault("e", "d"))))
    database.write_now(inbox.poll_inbox, inbox_options(), request)


def test_acknowledged_events_are_removed_after_their_retention(
    database: Database, client: PollingClient, clock: ManualClock
) -> None:
    database.write_now(inbox_fixture.put_ready, client.id, "a", "b", "c")
    poll(database, client, errs=("c",))
    poll(database, client, "a")
    clock.advance(30 * DAY)
    assert database.write_now(inbox_retention.evict, 30 * DAY) == 0
    clock.advance(1)
    assert database.write_now(inbox_retention.evict, 30 * DAY) == 1
    assert counts(database) == (2, 2, 1)
    assert {inbox_fixture.status_of(database, jti) for jti in ("b", "c")} == {"ready", "errored"}


def test_records_are_removed_when_their_events_are_finished(
    database: Database, client: PollingClient, clock: ManualClock
) -> None:
    for jti in ("a", "b", "c"):
        database.write_now(inbox_fixture.put_ready, client.id, jti)
        poll(database, client)
    poll(database, client, "b", "c")
    clock.advance(DAY + 1)
    assert database.write_now(inbox_retention.evict, DAY) == 2
    # The first event is not finished, so its record is kept; the last record is the current position.
    assert counts(database) == (1, 1, 3)
    poll(database, client, "a")
    clock.advance(DAY + 1)
    assert database.write_now(inbox_retention.evict, DAY) == 3
    assert counts(database) == (0, 0, 1)


def test_errored_event_keeps_its_record(database: Database, client: PollingClient, clock: ManualClock) -> None:
    for jti in ("a", "b"):
        database.write_now(inbox_fixture.put_ready, client.id, jti)
        poll(database, client)
    poll(database, client, "b", errs=("a",))
    clock.advance(DAY + 1)
    assert database.write_now(inbox_retention.evict, DAY) == 1
    assert counts(database) == (1, 1, 2)


def test_sweep_is_bounded(
    database: Database, client: PollingClient, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(inbox_retention, "ROWS_MAX", 2)
    database.write_now(inbox_fixture.put_ready, client.id, "a", "b", "c")
    poll(database, client, "a", "b", "c")
    clock.advance(1)
    assert [database.write_now(inbox_retention.evict, 0) for _ in range(3)] == [2, 1, 0]


def test_last_poll_time_moves_forward_only(database: Database, client: PollingClient) -> None:
    def last_poll() -> int:
        row = database.read_now(lambda conn: conn.one(_LAST_POLL, client=client.id))
        assert row is not None
        return int(row["last_poll_at"])

    for seconds, written in ((5, 5000), (4, 5000), (6.5, 6500)):
        database.write_now(inbox_retention.write_last_poll, [(client.id, START_MS / 1000 + seconds)])
        assert last_poll() == START_MS + written
