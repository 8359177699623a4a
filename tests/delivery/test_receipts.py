import pytest

from restante.database.database import Database
from restante.delivery import log, receipts
from restante.delivery.outside_outbox import ClaimedRow
from restante.delivery.receipts import LeaseOver, Publishing
from tests.conftest import START_MS, ManualClock
from tests.delivery.rows import published, signal

LATER = START_MS + 30_000


def row(row_id: int, device_id: int, about: int = 0, created_at: int = 1) -> ClaimedRow:
    return ClaimedRow(row_id, device_id, signal(about).payload(), 0, created_at)


def publish(database: Database, *rows: ClaimedRow, source: str = "shop") -> Publishing:
    return database.write_now(receipts.publish, source, list(rows), LATER, log.append_all)


def test_a_row_is_published_once_however_often_it_is_claimed(database: Database, device: int) -> None:
    assert publish(database, row(1, device, 1), row(2, device, 2)).published == [1, 2]
    again = publish(database, row(2, device, 2), row(3, device, 3))
    assert (again.known, again.published) == ([2], [3])
    assert published(database, device) == [1, 2, 3]


def test_another_sources_rows_are_other_rows(database: Database, device: int) -> None:
    publish(database, row(1, device, 1))
    assert publish(database, row(1, device, 1), source="depot").published == [1]


@pytest.mark.parametrize("change", [{"about": 2}, {"created_at": 2}])
def test_an_id_that_is_used_again_is_another_row(database: Database, device: int, change: dict[str, int]) -> None:
    publish(database, row(1, device, about=1))
    assert publish(database, row(1, device, **{"about": 1, **change})).published == [1]
    assert publish(database, row(1, device, **{"about": 1, **change})).known == [1]


def test_after_the_lease_nothing_is_published(database: Database, device: int, clock: ManualClock) -> None:
    clock.now_ms = LATER
    with pytest.raises(LeaseOver):
        publish(database, row(1, device))
    assert published(database, device) == []


def test_what_can_never_be_published_is_said_and_has_no_receipt(database: Database, device: int) -> None:
    bad = ClaimedRow(1, device, "no JSON", 0, 1)
    found = publish(database, bad, row(2, 999), row(3, device))
    assert found.published == [3]
    assert found.undeliverable[1].startswith("the payload is not a signal")
    assert found.undeliverable[2] == "there is no device 999"
    # The device has been added since: the row is not taken for published.
    assert publish(database, row(2, device)).published == [2]


def test_a_receipt_is_kept_until_its_row_has_come_to_its_end_and_a_while_longer(
    database: Database, device: int, clock: ManualClock
) -> None:
    publish(database, row(1, device, 1), row(2, device, 2))
    clock.advance(3600)
    assert database.write_now(receipts.evict_settled, 60, 10) == 0
    assert database.read_now(receipts.unsettled, "shop", 60, 10) == [1, 2]
    assert database.read_now(receipts.unsettled, "shop", 7200, 10) == []
    assert database.read_now(receipts.unsettled, "depot", 60, 10) == []
    database.write_now(receipts.settle, "shop", [1])
    assert database.read_now(receipts.unsettled, "shop", 60, 10) == [2]
    assert database.write_now(receipts.evict_settled, 60, 10) == 0
    clock.advance(61)
    assert database.write_now(receipts.evict_settled, 60, 10) == 1
    assert database.write_now(receipts.evict_settled, 60, 10) == 0


def test_the_clock_is_the_databases(database: Database, clock: ManualClock) -> None:
    clock.advance(5)
    assert database.read_now(receipts.clock) == clock.now_ms
