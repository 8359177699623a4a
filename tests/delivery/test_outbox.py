import json
from collections.abc import Mapping

import pytest

from restante.core.backoff import Backoff
from restante.database.connection import Connection
from restante.database.database import Database
from restante.database.queries import Query
from restante.delivery import log, outbox
from restante.delivery.outbox import Enqueued, HeldRow, Outcome
from restante.delivery.signals import Signal
from tests.conftest import START_MS, ManualClock
from tests.delivery.rows import add_device, enqueue, published, row, signal

LEASE = 30
BACKOFF = Backoff(base_seconds=1, max_seconds=300, attempts_max=3)
INSERT = Query(
    "insert",
    "INSERT INTO device_update_outbox (device_id, event_kind, payload, created_at) "
    "VALUES (:device_id, 'x', :payload, 0)",
)


class RolledBack(Exception):
    """The business change failed after its signal was enqueued."""


@pytest.fixture
def announced(database: Database) -> list[object]:
    events: list[object] = []
    database.on_commit(events.extend)
    return events


def claim(database: Database, dispatcher: str = "d1", batch: int = 100) -> int:
    return database.write_now(outbox.claim, dispatcher, LEASE, batch)


def deliver(database: Database, dispatcher: str = "d1") -> Outcome:
    return database.write_now(outbox.deliver_held, dispatcher, log.append_all)


def held(database: Database, dispatcher: str = "d1") -> list[int]:
    return [row.id for row in database.write_now(outbox.held_by, dispatcher)]


def held_row(database: Database, row_id: int, dispatcher: str = "d1") -> HeldRow:
    return next(row for row in database.write_now(outbox.held_by, dispatcher) if row.id == row_id)


def put_back(database: Database, row: HeldRow, dispatcher: str = "d1", backoff: Backoff = BACKOFF) -> Outcome:
    return database.write_now(outbox.put_back, dispatcher, row, "away", backoff)


def test_a_row_keeps_the_signal_exactly_and_waits(database: Database, device: int) -> None:
    said = Signal("install.updated", 5, {"config_id": 1, "installs_hash_b64": None, "é": "ü"})
    database.write_now(outbox.enqueue, device, said)
    kept = row(database, 1)
    assert json.loads(kept.payload) == {"type": "install.updated", "ts_ms": 5, "ref": said.ref}
    assert (kept.device_id, kept.event_kind, kept.status, kept.attempts) == (device, "install.updated", "PENDING", 0)
    assert (kept.created_at, kept.claimed_by, kept.delivered_at) == (START_MS, None, None)


def test_enqueueing_rings_after_the_commit_and_a_rollback_leaves_nothing(
    database: Database, device: int, announced: list[object]
) -> None:
    def change_and_fail(conn: Connection) -> None:
        outbox.enqueue(conn, device, signal())
        raise RolledBack()

    with pytest.raises(RolledBack):
        database.write_now(change_and_fail)
    assert announced == []
    assert database.read_now(outbox.list_rows, None, None, 10) == []
    enqueue(database, device, 1)
    assert announced == [Enqueued()]


def test_a_claim_leases_the_oldest_rows_up_to_the_batch(database: Database, device: int) -> None:
    enqueue(database, device, 1, 2, 3)
    assert claim(database, batch=2) == 2
    assert held(database) == [1, 2]
    taken = row(database, 1)
    assert (taken.claimed_by, taken.claimed_at, taken.lock_expires_at) == ("d1", START_MS, START_MS + 30_000)


def test_what_is_leased_is_no_others(database: Database, device: int, neighbour: int) -> None:
    enqueue(database, device, 1)
    enqueue(database, neighbour, 2)
    assert claim(database, "d1", batch=1) == 1
    assert claim(database, "d2") == 1
    assert claim(database, "d3") == 0
    assert (held(database, "d1"), held(database, "d2")) == ([1], [2])


def test_a_younger_row_waits_for_its_elders_lease_and_other_devices_do_not(
    database: Database, device: int, neighbour: int
) -> None:
    enqueue(database, device, 1)
    claim(database, "d1")
    enqueue(database, device, 2)
    enqueue(database, neighbour, 3)
    assert claim(database, "d2") == 1
    assert held(database, "d2") == [3]
    deliver(database, "d1")
    assert claim(database, "d2") == 1
    deliver(database, "d2")
    assert published(database, device) == [1, 2]


def test_delivery_publishes_in_order_and_marks_in_one_transaction(
    database: Database, device: int, neighbour: int, clock: ManualClock
) -> None:
    for about in range(6):
        enqueue(database, (device, neighbour)[about % 2], about)
    claim(database)
    clock.advance(1)
    assert deliver(database) == Outcome(delivered=6)
    assert (published(database, device), published(database, neighbour)) == ([0, 2, 4], [1, 3, 5])
    done = row(database, 1)
    assert (done.status, done.delivered_at, done.lock_expires_at) == ("DELIVERED", START_MS + 1000, None)
    assert deliver(database) == Outcome()


def test_an_append_that_fails_leaves_everything_as_it_was(database: Database, device: int, neighbour: int) -> None:
    enqueue(database, device, 1)
    enqueue(database, neighbour, 2)
    claim(database)

    def fail_for_neighbour(conn: Connection, signals: Mapping[int, list[Signal]]) -> None:
        log.append_all(conn, signals)
        if neighbour in signals:
            raise ConnectionError("away")

    with pytest.raises(ConnectionError):
        database.write_now(outbox.deliver_held, "d1", fail_for_neighbour)
    assert published(database, device) == []
    assert held(database) == [1, 2]


def test_a_lease_that_ran_out_is_taken_up_and_its_former_holder_can_do_no_harm(
    database: Database, device: int, clock: ManualClock
) -> None:
    enqueue(database, device, 1, 2)
    claim(database, "late")
    clock.advance(LEASE - 0.001)
    assert claim(database, "d2") == 0
    clock.advance(0.001)
    assert deliver(database, "late") == Outcome()
    assert claim(database, "d2") == 2
    assert deliver(database, "late") == Outcome()
    assert deliver(database, "d2") == Outcome(delivered=2)
    assert deliver(database, "late") == Outcome()
    assert published(database, device) == [1, 2]


def test_a_row_is_published_only_under_its_lease(database: Database, device: int, clock: ManualClock) -> None:
    enqueue(database, device, 1)
    claim(database, "late")
    clock.advance(LEASE)
    assert database.write_now(outbox.deliver_row, "late", 1, log.append_all) == Outcome()
    claim(database, "d2")
    assert database.write_now(outbox.deliver_row, "late", 1, log.append_all) == Outcome()
    assert database.write_now(outbox.deliver_row, "d2", 1, log.append_all) == Outcome(delivered=1)
    assert published(database, device) == [1]


def test_a_failed_attempt_waits_longer_each_time_and_ends_failed(
    database: Database, device: int, clock: ManualClock
) -> None:
    enqueue(database, device, 1)
    for attempts, delay_seconds in ((1, 1), (2, 2)):
        claim(database)
        assert put_back(database, held_row(database, 1)) == Outcome(retried=1)
        waiting = row(database, 1)
        assert (waiting.status, waiting.attempts, waiting.failure_reason) == ("PENDING", attempts, "away")
        assert (waiting.claimed_by, waiting.lock_expires_at) == (None, None)
        assert waiting.next_attempt_at == clock.now_ms + delay_seconds * 1000
        clock.advance(delay_seconds - 0.001)
        assert claim(database) == 0
        clock.advance(0.001)
    claim(database)
    assert put_back(database, held_row(database, 1)) == Outcome(failed=1)
    given_up = row(database, 1)
    assert (given_up.status, given_up.attempts, given_up.failure_reason) == ("FAILED", 3, "away")
    assert given_up.next_attempt_at is None
    clock.advance(10_000)
    assert claim(database) == 0


def test_a_row_that_waits_for_its_retry_holds_back_its_own_device_only(
    database: Database, device: int, neighbour: int, clock: ManualClock
) -> None:
    enqueue(database, device, 1)
    claim(database)
    put_back(database, held_row(database, 1))
    enqueue(database, device, 2)
    enqueue(database, neighbour, 3)
    assert claim(database) == 1
    deliver(database)
    assert (published(database, device), published(database, neighbour)) == ([], [3])
    clock.advance(1)
    claim(database)
    deliver(database)
    assert published(database, device) == [1, 2]


def test_a_row_that_failed_holds_back_none(database: Database, device: int) -> None:
    enqueue(database, device, 1, 2)
    claim(database)
    put_back(database, held_row(database, 1), backoff=Backoff(attempts_max=1))
    assert deliver(database) == Outcome(delivered=1)
    assert published(database, device) == [2]


def test_a_younger_row_still_leased_does_not_overtake_an_elder_that_was_put_back(
    database: Database, device: int, neighbour: int, clock: ManualClock
) -> None:
    # A dispatcher that failed with row 1 and had no time to give back row 2 holds a lease on row 2 alone.
    enqueue(database, device, 1, 2)
    claim(database)
    put_back(database, held_row(database, 1))
    enqueue(database, neighbour, 3)
    assert claim(database) == 1
    assert deliver(database) == Outcome(delivered=1)
    assert database.write_now(outbox.deliver_row, "d1", 2, log.append_all) == Outcome()
    assert published(database, device) == []
    clock.advance(1)
    claim(database)
    deliver(database)
    assert published(database, device) == [1, 2]


def test_an_elder_that_was_reset_goes_before_a_younger_one_already_leased(
    database: Database, device: int, clock: ManualClock
) -> None:
    enqueue(database, device, 1, 2)
    claim(database)
    put_back(database, held_row(database, 1), backoff=Backoff(attempts_max=1))
    assert database.write_now(outbox.retry, [1]) == 1
    assert deliver(database) == Outcome()
    clock.advance(LEASE)
    claim(database)
    deliver(database)
    assert published(database, device) == [1, 2]


def test_who_lost_the_lease_cannot_fail_what_another_delivered(
    database: Database, device: int, clock: ManualClock
) -> None:
    enqueue(database, device, 1)
    claim(database, "late")
    late = held_row(database, 1, "late")
    clock.advance(LEASE)
    claim(database, "d2")
    deliver(database, "d2")
    for backoff in (BACKOFF, Backoff(attempts_max=1)):
        assert put_back(database, late, "late", backoff) == Outcome()
    done = row(database, 1)
    assert (done.status, done.attempts, done.failure_reason) == ("DELIVERED", 0, None)


def test_who_lost_the_lease_cannot_take_it_from_its_holder(database: Database, device: int, clock: ManualClock) -> None:
    enqueue(database, device, 1)
    claim(database, "late")
    late = held_row(database, 1, "late")
    clock.advance(LEASE)
    claim(database, "d2")
    assert put_back(database, late, "late") == Outcome()
    assert put_back(database, late, "late", Backoff(attempts_max=1)) == Outcome()
    database.write_now(outbox.release, "late", [1])
    assert held(database, "d2") == [1]
    assert row(database, 1).attempts == 0


def test_what_the_dead_were_holding_can_be_claimed_at_once(database: Database, device: int) -> None:
    enqueue(database, device, 1, 2)
    assert claim(database, "dead") == 2
    assert claim(database, "alive") == 0
    assert database.write_now(outbox.release_all) == 2
    assert claim(database, "alive") == 2
    assert row(database, 1).attempts == 0


def test_only_what_waits_is_given_back(database: Database, device: int) -> None:
    enqueue(database, device, 1)
    claim(database, "d1")
    database.write_now(outbox.deliver_held, "d1", log.append_all)
    assert database.write_now(outbox.release_all) == 0
    assert row(database, 1).status == "DELIVERED"


def test_what_is_released_can_be_claimed_at_once(database: Database, device: int) -> None:
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
def test_a_payload_that_is_no_signal_fails_at_once_and_alone(database: Database, device: int, payload: str) -> None:
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


def test_a_payload_that_is_no_signal_fails_at_once_where_rows_are_tried_one_by_one(
    database: Database, device: int
) -> None:
    database.write_now(lambda conn: conn.run(INSERT, device_id=device, payload="{"))
    claim(database)
    assert database.write_now(outbox.deliver_row, "d1", 1, log.append_all) == Outcome(failed=1)
    assert row(database, 1).status == "FAILED"


def test_a_device_that_does_not_exist_fails_at_once(database: Database, device: int) -> None:
    enqueue(database, 999, 1)
    claim(database)
    assert deliver(database) == Outcome(failed=1)
    assert row(database, 1).failure_reason == "there is no device 999"


def test_a_long_reason_is_cut_to_what_the_table_takes(database: Database, device: int) -> None:
    enqueue(database, device, 1, 2)
    claim(database)
    first, second = database.write_now(outbox.held_by, "d1")
    database.write_now(outbox.put_back, "d1", first, "é" * 1000, BACKOFF)
    assert row(database, 1).failure_reason == "é" * 255
    database.write_now(outbox.put_back, "d1", second, "é" * 1000, Backoff(attempts_max=1))
    assert row(database, 2).failure_reason == "é" * 255


def test_a_reason_that_is_not_valid_text_is_kept_as_well_as_can_be(database: Database, device: int) -> None:
    enqueue(database, device, 1)
    claim(database)
    database.write_now(outbox.put_back, "d1", held_row(database, 1), "bad \udc80 byte", BACKOFF)
    assert row(database, 1).failure_reason == "bad ? byte"


def test_a_reset_row_begins_anew_and_only_failed_rows_are_reset(
    database: Database, device: int, announced: list[object]
) -> None:
    enqueue(database, device, 1, 2, 3)
    claim(database)
    for row_id in (1, 2):
        put_back(database, held_row(database, row_id), backoff=Backoff(attempts_max=1))
    announced.clear()
    assert database.write_now(outbox.retry, [1, 3, 99]) == 1
    assert announced == [Enqueued()]
    again = row(database, 1)
    assert (again.status, again.attempts, again.failure_reason, again.claimed_by) == ("PENDING", 0, None, None)
    assert held(database) == []
    assert database.write_now(outbox.retry, None) == 1
    announced.clear()
    assert database.write_now(outbox.retry, None) == 0
    assert announced == []


def test_direct_emission_goes_to_the_log_unless_it_would_overtake(database: Database, device: int) -> None:
    database.write_now(outbox.emit_directly, device, signal(1), log.append_all)
    assert published(database, device) == [1]
    enqueue(database, device, 2)
    database.write_now(outbox.emit_directly, device, signal(3), log.append_all)
    assert published(database, device) == [1]
    claim(database)
    deliver(database)
    assert published(database, device) == [1, 2, 3]


def test_direct_emission_is_not_held_back_by_failed_rows_or_other_devices(
    database: Database, device: int, neighbour: int
) -> None:
    enqueue(database, device, 1)
    claim(database)
    put_back(database, held_row(database, 1), backoff=Backoff(attempts_max=1))
    enqueue(database, neighbour, 2)
    database.write_now(outbox.emit_directly, device, signal(3), log.append_all)
    assert published(database, device) == [3]


def test_rows_are_listed_newest_first_by_status_and_device_and_in_pages(
    database: Database, device: int, neighbour: int
) -> None:
    for about in range(4):
        enqueue(database, (device, neighbour)[about % 2], about)
    claim(database, batch=1)
    deliver(database)

    def ids(status: str | None, device_id: int | None, limit: int = 10, after: int = 0) -> list[int]:
        return [row.id for row in database.read_now(outbox.list_rows, status, device_id, limit, after)]

    assert ids(None, None) == [4, 3, 2, 1]
    assert ids("DELIVERED", None) == [1]
    assert ids("PENDING", device) == [3]
    assert ids(None, neighbour) == [4, 2]
    assert ids(None, None, limit=2) == [4, 3]
    assert ids(None, None, after=3) == [2, 1]
    assert database.read_now(outbox.get_row, 99) is None


def test_counts_say_what_waits_and_how_long_already(database: Database, device: int, clock: ManualClock) -> None:
    assert database.read_now(outbox.counts) == {"pending": 0, "failed": 0, "oldest_pending_ms": None}
    enqueue(database, device, 1)
    clock.advance(2)
    enqueue(database, device, 2, 3)
    claim(database)
    put_back(database, held_row(database, 1), backoff=Backoff(attempts_max=1))
    assert database.read_now(outbox.counts) == {"pending": 2, "failed": 1, "oldest_pending_ms": 0}
    clock.advance(1)
    assert database.read_now(outbox.counts)["oldest_pending_ms"] == 1000


def test_how_long_until_something_waiting_is_due(database: Database, device: int, clock: ManualClock) -> None:
    assert database.read_now(outbox.seconds_until_due) is None
    enqueue(database, device, 1)
    assert database.read_now(outbox.seconds_until_due) == 0.0
    claim(database)
    assert database.read_now(outbox.seconds_until_due) == 30.0
    put_back(database, held_row(database, 1))
    assert database.read_now(outbox.seconds_until_due) == 1.0


def test_rows_held_back_by_an_elder_are_due_with_it(database: Database, device: int) -> None:
    enqueue(database, device, 1)
    claim(database)
    put_back(database, held_row(database, 1))
    enqueue(database, device, 2, 3)
    assert database.read_now(outbox.seconds_until_due) == 1.0


def test_delivered_rows_are_removed_when_old_a_bounded_number_at_a_time(
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


def test_an_evicted_rows_id_is_not_given_again(database: Database, device: int, clock: ManualClock) -> None:
    enqueue(database, device, 1)
    claim(database)
    deliver(database)
    clock.advance(1)
    assert database.write_now(outbox.evict_delivered, 0, 10) == 1
    enqueue(database, device, 2)
    assert [row.id for row in database.read_now(outbox.list_rows, None, None, 10)] == [2]


def test_devices_made_by_this_tests_helper_differ(database: Database) -> None:
    assert database.write_now(add_device) != database.write_now(add_device)
