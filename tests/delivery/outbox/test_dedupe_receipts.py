import pytest

from restante.database.database import Database
from restante.delivery.outbox import dedupe_receipts
from restante.delivery.outbox.dedupe_receipts import LeaseExpired, PublishResult
from restante.delivery.outbox.external_outbox import ClaimedRow
from tests.conftest import START_MS, ManualClock
from tests.defaults import append_all_signals
from tests.delivery.rows import published, signal

LEASE_ENDS_MS = START_MS + 30_000


def row(row_id: int, device_id: int, about: int = 0, created_at: int = 1) -> ClaimedRow:
    return ClaimedRow(row_id, device_id, signal(about).payload(), 0, created_at)


def publish(database: Database, *rows: ClaimedRow, source: str = "shop") -> PublishResult:
    return database.write_now(dedupe_receipts.publish, source, list(rows), LEASE_ENDS_MS, append_all_signals)


def test_row_claimed_again_is_not_published_again(database: Database, device: int) -> None:
    assert publish(database, row(1, device, 1), row(2, device, 2)).published == [1, 2]
    again = publish(database, row(2, device, 2), row(3, device, 3))
    assert (again.already_published, again.published) == ([2], [3])
    assert published(database, device) == [1, 2, 3]


def test_same_id_in_another_source_is_another_row(database: Database, device: int) -> None:
    publish(database, row(1, device, 1))
    assert publish(database, row(1, device, 1), source="depot").published == [1]


@pytest.mark.parametrize("change", [{"about": 2}, {"created_at": 2}])
def test_reused_id_with_other_content_is_another_row(database: Database, device: int, change: dict[str, int]) -> None:
    publish(database, row(1, device, about=1))
    assert publish(database, row(1, device, **{"about": 1, **change})).published == [1]
    assert publish(database, row(1, device, **{"about": 1, **change})).already_published == [1]


def test_nothing_is_published_after_the_lease(database: Database, device: int, clock: ManualClock) -> None:
    clock.now_ms = LEASE_ENDS_MS
    with pytest.raises(LeaseExpired):
        publish(database, row(1, device))
    assert published(database, device) == []


def test_undeliverable_row_is_reported_and_has_no_receipt(database: Database, device: int) -> None:
    bad = ClaimedRow(1, device, "no JSON", 0, 1)
    found = publish(database, bad, row(2, 999), row(3, device))
    assert found.published == [3]
    assert found.undeliverable[1].startswith("the payload is not a signal")
    assert found.undeliverable[2] == "there is no device 999"
    # With a device that exists, the row is published: it has no receipt.
    assert publish(database, row(2, device)).published == [2]


def test_receipt_is_evicted_some_time_after_it_is_closed(database: Database, device: int, clock: ManualClock) -> None:
    publish(database, row(1, device, 1), row(2, device, 2))
    clock.advance(3600)
    assert database.write_now(dedupe_receipts.evict_closed, 60, 10) == 0
    assert database.read_now(dedupe_receipts.open_receipts, "shop", 60, 10) == [1, 2]
    assert database.read_now(dedupe_receipts.open_receipts, "shop", 7200, 10) == []
    assert database.read_now(dedupe_receipts.open_receipts, "depot", 60, 10) == []
    database.write_now(dedupe_receipts.close_receipts, "shop", [1])
    assert database.read_now(dedupe_receipts.open_receipts, "shop", 60, 10) == [2]
    assert database.write_now(dedupe_receipts.evict_closed, 60, 10) == 0
    clock.advance(61)
    assert database.write_now(dedupe_receipts.evict_closed, 60, 10) == 1
    assert database.write_now(dedupe_receipts.evict_closed, 60, 10) == 0


def test_clock_is_that_of_the_database(database: Database, clock: ManualClock) -> None:
    clock.advance(5)
    assert database.read_now(dedupe_receipts.clock) == clock.now_ms
