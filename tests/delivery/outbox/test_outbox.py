import json
from collections.abc import Mapping

import pytest

from restante.core.backoff import Backoff
from restante.core.iso_time import iso_precise
from restante.database.connection import Connection
from restante.database.database import Database
from restante.database.queries import Query
from restante.delivery.log.signals import Signal
from restante.delivery.outbox import outbox
from restante.delivery.outbox.outbox import Enqueued, LeasedRow, Outcome
from tests.conftest import START_MS, ManualClock
from tests.defaults import append_all_signals
from tests.delivery.rows import add_device, enqueue, published, row, signal

LEASE_SECONDS = 30
BACKOFF = Backoff(base_seconds=1, max_seconds=300, attempts_max=3)
NO_RETRY = Backoff(base_seconds=1, max_seconds=300, attempts_max=1)
INSERT = Query(
    "insert",
    "INSERT INTO device_update_outbox (device_id, event_kind, payload, created_at) "
    "VALUES (:device_id, 'x', :payload, 0)",
)


class RolledBack(Exception):
    """The business change failed after its signal was enqueued."""


@pytest.fixture
def committed(database: Database) -> list[object]:
    events: list[object] = []
    database.on_commit(events.extend)
    return events


def claim(database: Database, dispatcher: str = "d1", batch: int = 100) -> int:
    return database.write_now(outbox.claim, dispatcher, LEASE_SECONDS, batch)


def deliver(database: Database, dispatcher: str = "d1") -> Outcome:
    return database.write_now(outbox.deliver_leased, dispatcher, append_all_signals)


def leased(database: Database, dispatcher: str = "d1") -> list[int]:
    return [row.id for row in database.write_now(outbox.leased_rows, dispatcher)]


def leased_row(database: Database, row_id: int, dispatcher: str = "d1") -> LeasedRow:
    return next(row for row in database.write_now(outbox.leased_rows, dispatcher) if row.id == row_id)


def fail_attempt(database: Database, row: LeasedRow, dispatcher: str = "d1", backoff: Backoff = BACKOFF) -> Outcome:
    return database.write_now(outbox.schedule_retry, dispatcher, row, "unreachable", backoff)


def test_enqueued_row_is_pending_and_holds_the_signal_exactly(database: Database, device: int) -> None:
    original = Signal("install.updated", 5, {"config_id": 1, "installs_hash_b64": None, "é": "ü"})
    database.write_now(outbox.enqueue, device, original)
    stored = row(database, 1)
    assert json.loads(stored.payload) == {"type": "install.updated", "ts_ms": 5, "ref": original.ref}
    assert (stored.device_id, stored.event_kind, stored.status, stored.attempts) == (
        device,
        "install.updated",
        "PENDING",
        0,
    )
    assert (stored.created_at, stored.claimed_by, stored.delivered_at) == (iso_precise(START_MS), None, None)


def test_enqueue_publishes_an_event_on_commit_and_nothing_on_rollback(
    database: Database, device: int, committed: list[object]
) -> None:
    def change_and_fail(conn: Connection) -> None:
        outbox.enqueue(conn, device, signal())
        raise RolledBack()

    with pytest.raises(RolledBack):
        database.write_now(change_and_fail)
    assert committed == []
    assert database.read_now(outbox.list_rows, None, None, 10) == []
    enqueue(database, device, 1)
    assert committed == [Enqueued()]


def test_claim_leases_the_oldest_rows_up_to_the_batch(database: Database, device: int) -> None:
    enqueue(database, device, 1, 2, 3)
    assert claim(database, batch=2) == 2
    assert leased(database) == [1, 2]
    claimed = row(database, 1)
    assert (claimed.claimed_by, claimed.claimed_at) == ("d1", iso_precise(START_MS))
    assert claimed.lock_expires_at == iso_precise(START_MS + 30_000)


def test_leased_rows_are_not_claimed_again(database: Database, device: int, other_device: int) -> None:
    enqueue(database, device, 1)
    enqueue(database, other_device, 2)
    assert claim(database, "d1", batch=1) == 1
    assert claim(database, "d2") == 1
    assert claim(database, "d3") == 0
    assert (leased(database, "d1"), leased(database, "d2")) == ([1], [2])


def test_row_waits_for_the_lease_of_an_older_row_of_its_device_only(
    database: Database, device: int, other_device: int
) -> None:
    enqueue(database, device, 1)
    claim(database, "d1")
    enqueue(database, device, 2)
    enqueue(database, other_device, 3)
    assert claim(database, "d2") == 1
    assert leased(database, "d2") == [3]
    deliver(database, "d1")
    assert claim(database, "d2") == 1
    deliver(database, "d2")
    assert published(database, device) == [1, 2]


def test_delivery_publishes_in_order_and_marks_in_one_transaction(
    database: Database, device: int, other_device: int, clock: ManualClock
) -> None:
    for about in range(6):
        enqueue(database, (device, other_device)[about % 2], about)
    claim(database)
    clock.advance(1)
    assert deliver(database) == Outcome(delivered=6)
    assert (published(database, device), published(database, other_device)) == ([0, 2, 4], [1, 3, 5])
    done = row(database, 1)
    assert (done.status, done.delivered_at, done.lock_expires_at) == ("DELIVERED", iso_precise(START_MS + 1000), None)
    assert deliver(database) == Outcome()


def test_failing_append_changes_nothing(database: Database, device: int, other_device: int) -> None:
    enqueue(database, device, 1)
    enqueue(database, other_device, 2)
    claim(database)

    def fail_for_neighbour(conn: Connection, signals: Mapping[int, list[Signal]]) -> None:
        append_all_signals(conn, signals)
        if other_device in signals:
            raise ConnectionError("unreachable")

    with pytest.raises(ConnectionError):
        database.write_now(outbox.deliver_leased, "d1", fail_for_neighbour)
    assert published(database, device) == []
    assert leased(database) == [1, 2]


def test_row_with_expired_lease_is_delivered_by_the_next_dispatcher_only(
    database: Database, device: int, clock: ManualClock
) -> None:
    enqueue(database, device, 1, 2)
    claim(database, "late")
    clock.advance(LEASE_SECONDS - 0.001)
    assert claim(database, "d2") == 0
    clock.advance(0.001)
    assert deliver(database, "late") == Outcome()
    assert claim(database, "d2") == 2
    assert deliver(database, "late") == Outcome()
    assert deliver(database, "d2") == Outcome(delivered=2)
    assert deliver(database, "late") == Outcome()
    assert published(database, device) == [1, 2]


def test_row_is_published_only_under_its_lease(database: Database, device: int, clock: ManualClock) -> None:
    enqueue(database, device, 1)
    claim(database, "late")
    clock.advance(LEASE_SECONDS)
    assert database.write_now(outbox.deliver_row, "late", 1, append_all_signals) == Outcome()
    claim(database, "d2")
    assert database.write_now(outbox.deliver_row, "late", 1, append_all_signals) == Outcome()
    assert database.write_now(outbox.deliver_row, "d2", 1, append_all_signals) == Outcome(delivered=1)
    assert published(database, device) == [1]


def test_failed_attempts_wait_longer_each_time_until_the_row_fails(
    database: Database, device: int, clock: ManualClock
) -> None:
    enqueue(database, device, 1)
    for attempts, delay_seconds in ((1, 1), (2, 2)):
        claim(database)
        assert fail_attempt(database, leased_row(database, 1)) == Outcome(retried=1)
        waiting = row(database, 1)
        assert (waiting.status, waiting.attempts, waiting.failure_reason) == ("PENDING", attempts, "unreachable")
        assert (waiting.claimed_by, waiting.lock_expires_at) == (None, None)
        assert waiting.next_attempt_at == iso_precise(clock.now_ms + delay_seconds * 1000)
        clock.advance(delay_seconds - 0.001)
        assert claim(database) == 0
        clock.advance(0.001)
    claim(database)
    assert fail_attempt(database, leased_row(database, 1)) == Outcome(failed=1)
    failed_row = row(database, 1)
    assert (failed_row.status, failed_row.attempts, failed_row.failure_reason) == ("FAILED", 3, "unreachable")
    assert failed_row.next_attempt_at is None
    clock.advance(10_000)
    assert claim(database) == 0


def test_row_waiting_for_retry_holds_back_its_device_only(
    database: Database, device: int, other_device: int, clock: ManualClock
) -> None:
    enqueue(database, device, 1)
    claim(database)
    fail_attempt(database, leased_row(database, 1))
    enqueue(database, device, 2)
    enqueue(database, other_device, 3)
    assert claim(database) == 1
    deliver(database)
    assert (published(database, device), published(database, other_device)) == ([], [3])
    clock.advance(1)
    claim(database)
    deliver(database)
    assert published(database, device) == [1, 2]


def test_failed_row_holds_back_none(database: Database, device: int) -> None:
    enqueue(database, device, 1, 2)
    claim(database)
    fail_attempt(database, leased_row(database, 1), backoff=NO_RETRY)
    assert deliver(database) == Outcome(delivered=1)
    assert published(database, device) == [2]


def test_leased_row_does_not_overtake_an_older_row_that_waits_for_retry(
    database: Database, device: int, other_device: int, clock: ManualClock
) -> None:
    # A dispatcher that failed with row 1 and had no time to release row 2 has a lease on row 2 only.
    enqueue(database, device, 1, 2)
    claim(database)
    fail_attempt(database, leased_row(database, 1))
    enqueue(database, other_device, 3)
    assert claim(database) == 1
    assert deliver(database) == Outcome(delivered=1)
    assert database.write_now(outbox.deliver_row, "d1", 2, append_all_signals) == Outcome()
    assert published(database, device) == []
    clock.advance(1)
    claim(database)
    deliver(database)
    assert published(database, device) == [1, 2]


def test_leased_row_does_not_overtake_an_older_row_that_was_reset(
    database: Database, device: int, clock: ManualClock
) -> None:
    enqueue(database, device, 1, 2)
    claim(database)
    fail_attempt(database, leased_row(database, 1), backoff=NO_RETRY)
    assert database.write_now(outbox.retry, [1]) == 1
    assert deliver(database) == Outcome()
    clock.advance(LEASE_SECONDS)
    claim(database)
    deliver(database)
    assert published(database, device) == [1, 2]


def test_dispatcher_without_lease_cannot_fail_a_delivered_row(
    database: Database, device: int, clock: ManualClock
) -> None:
    enqueue(database, device, 1)
    claim(database, "late")
    late = leased_row(database, 1, "late")
    clock.advance(LEASE_SECONDS)
    claim(database, "d2")
    deliver(database, "d2")
    for backoff in (BACKOFF, NO_RETRY):
        assert fail_attempt(database, late, "late", backoff) == Outcome()
    done = row(database, 1)
    assert (done.status, done.attempts, done.failure_reason) == ("DELIVERED", 0, None)


def test_dispatcher_without_lease_cannot_release_the_row_of_another(
    database: Database, device: int, clock: ManualClock
) -> None:
    enqueue(database, device, 1)
    claim(database, "late")
    late = leased_row(database, 1, "late")
    clock.advance(LEASE_SECONDS)
    claim(database, "d2")
    assert fail_attempt(database, late, "late") == Outcome()
    assert fail_attempt(database, late, "late", NO_RETRY) == Outcome()
    database.write_now(outbox.release, "late", [1])
    assert leased(database, "d2") == [1]
    assert row(database, 1).attempts == 0


def test_release_all_makes_leased_rows_claimable(database: Database, device: int) -> None:
    enqueue(database, device, 1, 2)
    assert claim(database, "dead") == 2
    assert claim(database, "alive") == 0
    assert database.write_now(outbox.release_all) == 2
    assert claim(database, "alive") == 2
    assert row(database, 1).attempts == 0


def test_release_all_leaves_delivered_rows_alone(database: Database, device: int) -> None:
    enqueue(database, device, 1)
    claim(database, "d1")
    database.write_now(outbox.deliver_leased, "d1", append_all_signals)
    assert database.write_now(outbox.release_all) == 0
    assert row(database, 1).status == "DELIVERED"


def test_released_row_can_be_claimed_at_once(database: Database, device: int) -> None:
    enqueue(database, device, 1)
    claim(database, "d1")
    database.write_now(outbox.release, "d1", [1])
    assert claim(database, "d2") == 1
    assert row(database, 1).attempts == 0


@pytest.mark.parametrize(
    "payload",
    [
        "", "not json", "[]", "{}", "[" * 20_000, '{"type":"x"}', '{"type":"x","ts_ms":"1","ref":{}}',
        '{"type":"","ts_ms":1,"ref":{}}', '{"type":"x","ts_ms":-1,"ref":{}}', '{"type":"x","ts_ms":1,"ref":[]}',
        '{"type":"x","ts_ms":1,"ref":{},"more":1}',
        '{"type":"x","ts_ms":1,"ref":{"a":"' + "b" * 5000 + '"}}', '{"type":"\\ud800x","ts_ms":1,"ref":{}}',
        '{"type":"x","ts_ms":1,"ref":{"a":1e999}}', '{"type":"x","ts_ms":1,"ref":{"a":NaN}}',
    ],
)  # fmt: skip
def test_invalid_payload_fails_at_once_and_alone(database: Database, device: int, payload: str) -> None:
    database.write_now(lambda conn: conn.run(INSERT, device_id=device, payload=payload))
    enqueue(database, device, 2)
    claim(database)
    assert deliver(database) == Outcome(delivered=1, failed=1)
    bad = row(database, 1)
    assert (bad.status, bad.attempts) == ("FAILED", 1)
    assert bad.failure_reason is not None
    assert bad.failure_reason.startswith("the payload is not a signal")
    assert len(bad.failure_reason) <= 255
    assert published(database, device) == [2]


def test_invalid_payload_fails_at_once_in_deliver_row(database: Database, device: int) -> None:
    database.write_now(lambda conn: conn.run(INSERT, device_id=device, payload="{"))
    claim(database)
    assert database.write_now(outbox.deliver_row, "d1", 1, append_all_signals) == Outcome(failed=1)
    assert row(database, 1).status == "FAILED"


def test_row_of_an_unknown_device_fails_at_once(database: Database, device: int) -> None:
    enqueue(database, 999, 1)
    claim(database)
    assert deliver(database) == Outcome(failed=1)
    assert row(database, 1).failure_reason == "there is no device 999"


def test_long_failure_reason_is_truncated(database: Database, device: int) -> None:
    enqueue(database, device, 1, 2)
    claim(database)
    first, second = database.write_now(outbox.leased_rows, "d1")
    database.write_now(outbox.schedule_retry, "d1", first, "é" * 1000, BACKOFF)
    assert row(database, 1).failure_reason == "é" * 255
    database.write_now(outbox.schedule_retry, "d1", second, "é" * 1000, NO_RETRY)
    assert row(database, 2).failure_reason == "é" * 255


def test_invalid_characters_of_a_failure_reason_are_replaced(database: Database, device: int) -> None:
    enqueue(database, device, 1)
    claim(database)
    database.write_now(outbox.schedule_retry, "d1", leased_row(database, 1), "bad \udc80 byte", BACKOFF)
    assert row(database, 1).failure_reason == "bad ? byte"


def test_retry_resets_failed_rows_only(database: Database, device: int, committed: list[object]) -> None:
    enqueue(database, device, 1, 2, 3)
    claim(database)
    for row_id in (1, 2):
        fail_attempt(database, leased_row(database, row_id), backoff=NO_RETRY)
    committed.clear()
    assert database.write_now(outbox.retry, [1, 3, 99]) == 1
    assert committed == [Enqueued()]
    again = row(database, 1)
    assert (again.status, again.attempts, again.failure_reason, again.claimed_by) == ("PENDING", 0, None, None)
    assert leased(database) == []
    assert database.write_now(outbox.retry, None) == 1
    committed.clear()
    assert database.write_now(outbox.retry, None) == 0
    assert committed == []


def test_direct_emission_uses_the_log_unless_rows_are_pending(database: Database, device: int) -> None:
    database.write_now(outbox.emit_directly, device, signal(1), append_all_signals)
    assert published(database, device) == [1]
    enqueue(database, device, 2)
    database.write_now(outbox.emit_directly, device, signal(3), append_all_signals)
    assert published(database, device) == [1]
    claim(database)
    deliver(database)
    assert published(database, device) == [1, 2, 3]


def test_direct_emission_is_not_held_back_by_failed_rows_or_other_devices(
    database: Database, device: int, other_device: int
) -> None:
    enqueue(database, device, 1)
    claim(database)
    fail_attempt(database, leased_row(database, 1), backoff=NO_RETRY)
    enqueue(database, other_device, 2)
    database.write_now(outbox.emit_directly, device, signal(3), append_all_signals)
    assert published(database, device) == [3]


def test_rows_are_listed_newest_first_by_status_and_device_and_in_pages(
    database: Database, device: int, other_device: int
) -> None:
    for about in range(4):
        enqueue(database, (device, other_device)[about % 2], about)
    claim(database, batch=1)
    deliver(database)

    def ids(status: str | None, device_id: int | None, limit: int = 10, after: int = 0) -> list[int]:
        return [row.id for row in database.read_now(outbox.list_rows, status, device_id, limit, after)]

    assert ids(None, None) == [4, 3, 2, 1]
    assert ids("DELIVERED", None) == [1]
    assert ids("PENDING", device) == [3]
    assert ids(None, other_device) == [4, 2]
    assert ids(None, None, limit=2) == [4, 3]
    assert ids(None, None, after=3) == [2, 1]
    assert database.read_now(outbox.get_row, 99) is None


def test_counts_of_pending_and_failed_rows(database: Database, device: int, clock: ManualClock) -> None:
    assert database.read_now(outbox.counts) == {"pending": 0, "failed": 0, "oldest_pending_ms": None}
    enqueue(database, device, 1)
    clock.advance(2)
    enqueue(database, device, 2, 3)
    claim(database)
    fail_attempt(database, leased_row(database, 1), backoff=NO_RETRY)
    assert database.read_now(outbox.counts) == {"pending": 2, "failed": 1, "oldest_pending_ms": 0}
    clock.advance(1)
    assert database.read_now(outbox.counts)["oldest_pending_ms"] == 1000


def test_seconds_until_the_next_row_is_due(database: Database, device: int, clock: ManualClock) -> None:
    assert database.read_now(outbox.seconds_until_due) is None
    enqueue(database, device, 1)
    assert database.read_now(outbox.seconds_until_due) == 0.0
    claim(database)
    assert database.read_now(outbox.seconds_until_due) == 30.0
    fail_attempt(database, leased_row(database, 1))
    assert database.read_now(outbox.seconds_until_due) == 1.0


def test_rows_held_back_by_an_older_row_are_due_with_it(database: Database, device: int) -> None:
    enqueue(database, device, 1)
    claim(database)
    fail_attempt(database, leased_row(database, 1))
    enqueue(database, device, 2, 3)
    assert database.read_now(outbox.seconds_until_due) == 1.0


def test_old_delivered_rows_are_deleted_a_bounded_number_at_a_time(
    database: Database, device: int, clock: ManualClock
) -> None:
    enqueue(database, device, 1, 2, 3)
    claim(database)
    deliver(database)
    clock.advance(5)
    enqueue(database, device, 4)
    assert database.write_now(outbox.evict_delivered, 5, 2) == 0
    clock.advance(0.001)
    assert database.write_now(outbox.evict_delivered, 5, 2) == 2
    assert database.write_now(outbox.evict_delivered, 5, 2) == 1
    assert [row.id for row in database.read_now(outbox.list_rows, None, None, 10)] == [4]


def test_id_of_a_deleted_row_is_not_used_again(database: Database, device: int, clock: ManualClock) -> None:
    enqueue(database, device, 1)
    claim(database)
    deliver(database)
    clock.advance(1)
    assert database.write_now(outbox.evict_delivered, 0, 10) == 1
    enqueue(database, device, 2)
    assert [row.id for row in database.read_now(outbox.list_rows, None, None, 10)] == [2]


def test_add_device_makes_different_devices(database: Database) -> None:
    assert database.write_now(add_device) != database.write_now(add_device)
