import pytest

from restante.core.acknowledgement import Fault, verdicts_of
from restante.database.database import Database
from restante.database.queries import Query
from restante.events import eviction, inbox
from restante.events.inbox import InboxOptions, Wish
from tests.conftest import START_MS, ManualClock
from tests.events import bank
from tests.events.bank import Customer

DAY = 86_400
_COUNTS = Query(
    "counts",
    """SELECT (SELECT COUNT(*) FROM event_inbox) AS events, (SELECT COUNT(*) FROM event_texts) AS texts,
              (SELECT COUNT(*) FROM event_hand_outs) AS notes""",
)
_LAST_POLL = Query("last_poll", "SELECT last_poll_at FROM event_clients WHERE id = :client")


@pytest.fixture
def client(database: Database) -> Customer:
    return database.write_now(bank.add_client)


def counts(database: Database) -> tuple[int, ...]:
    row = database.read_now(lambda conn: conn.one(_COUNTS))
    assert row is not None
    return (row["events"], row["texts"], row["notes"])


def poll(database: Database, client: Customer, *ack: str, errs: tuple[str, ...] = (), limit: int = 100) -> None:
    wish = Wish(client.id, limit, verdicts_of(ack, dict.fromkeys(errs, Fault("e", "d"))))
    database.write_now(inbox.take, InboxOptions(), wish)


def test_acknowledged_events_leave_after_their_time(database: Database, client: Customer, clock: ManualClock) -> None:
    database.write_now(bank.put_ready, client.id, "a", "b", "c")
    poll(database, client, errs=("c",))
    poll(database, client, "a")
    clock.advance(30 * DAY)
    assert database.write_now(eviction.evict, 30 * DAY) == 0
    clock.advance(1)
    assert database.write_now(eviction.evict, 30 * DAY) == 1
    assert counts(database) == (2, 2, 1)
    assert {bank.status_of(database, jti) for jti in ("b", "c")} == {"ready", "errored"}


def test_notes_leave_when_all_they_tell_of_is_done_with(
    database: Database, client: Customer, clock: ManualClock
) -> None:
    for jti in ("a", "b", "c"):
        database.write_now(bank.put_ready, client.id, jti)
        poll(database, client)
    poll(database, client, "b", "c")
    clock.advance(DAY + 1)
    assert database.write_now(eviction.evict, DAY) == 2
    # What was sent when is still to be told of the first, and the last is the mark.
    assert counts(database) == (1, 1, 3)
    poll(database, client, "a")
    clock.advance(DAY + 1)
    assert database.write_now(eviction.evict, DAY) == 3
    assert counts(database) == (0, 0, 1)


def test_an_errored_event_keeps_its_note(database: Database, client: Customer, clock: ManualClock) -> None:
    for jti in ("a", "b"):
        database.write_now(bank.put_ready, client.id, jti)
        poll(database, client)
    poll(database, client, "b", errs=("a",))
    clock.advance(DAY + 1)
    assert database.write_now(eviction.evict, DAY) == 1
    assert counts(database) == (1, 1, 2)


def test_a_sweep_is_bounded(
    database: Database, client: Customer, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(eviction, "ROWS_MAX", 2)
    database.write_now(bank.put_ready, client.id, "a", "b", "c")
    poll(database, client, "a", "b", "c")
    clock.advance(1)
    assert [database.write_now(eviction.evict, 0) for _ in range(3)] == [2, 1, 0]


def test_the_last_poll_moves_forward_only(database: Database, client: Customer) -> None:
    def last_poll() -> int:
        row = database.read_now(lambda conn: conn.one(_LAST_POLL, client=client.id))
        assert row is not None
        return int(row["last_poll_at"])

    for seconds, written in ((5, 5000), (4, 5000), (6.5, 6500)):
        database.write_now(eviction.write_last_poll, [(client.id, START_MS / 1000 + seconds)])
        assert last_poll() == START_MS + written
