from collections.abc import Iterator
from contextlib import closing

import pytest

from restante.core.backoff import Backoff
from restante.database.external.external_database import ExternalDatabase
from restante.delivery.outbox import external_outbox, outbox
from restante.delivery.outbox.outbox import LeasedRow
from restante.outbox import enqueue
from tests.delivery.external_databases import ApplicationDatabase

LEASE_SECONDS = 60.0


@pytest.fixture
def source(application: ApplicationDatabase) -> Iterator[ExternalDatabase]:
    with application.opened() as source:
        yield source


def fill(application: ApplicationDatabase, *device_ids: int) -> None:
    with closing(application.connect()) as conn:
        for number, device_id in enumerate(device_ids):
            enqueue(conn, device_id, {"type": "x", "ref": {"number": number}})
        conn.commit()


async def claim(source: ExternalDatabase, dispatcher: str = "me", batch: int = 100) -> list[int]:
    rows = await source.write_exclusive(external_outbox.claim, dispatcher, LEASE_SECONDS, batch)
    return [row.id for row in rows]


async def test_oldest_rows_are_leased_once(application: ApplicationDatabase, source: ExternalDatabase) -> None:
    fill(application, 1, 2, 3)
    assert await claim(source, batch=2) == [1, 2]
    assert await claim(source, "another") == [3]
    assert await claim(source) == []


async def test_leased_row_holds_back_later_rows_of_its_device_only(
    application: ApplicationDatabase, source: ExternalDatabase
) -> None:
    fill(application, 1, 1, 2, 1)
    assert await claim(source, batch=1) == [1]
    assert await claim(source, "another") == [3]


async def test_row_waiting_for_retry_holds_back_its_device_until_it_fails(
    application: ApplicationDatabase, source: ExternalDatabase
) -> None:
    fill(application, 1, 1, 2)
    assert await claim(source, batch=1) == [1]
    row = LeasedRow(1, 1, "", 0)
    backoff = Backoff(base_seconds=3600, max_seconds=3600, attempts_max=10)
    assert (await source.write(outbox.schedule_retry, "me", row, "no luck", backoff)).retried == 1
    await source.write(external_outbox.mark_delivered, await claim(source))
    assert application.rows()[2] == (3, "DELIVERED")
    assert 3000 < (await source.read(external_outbox.seconds_until_due) or 0) <= 3600
    application.run("UPDATE device_update_outbox SET next_attempt_at = 1 WHERE id = 1")
    assert await claim(source, batch=1) == [1]
    assert (await source.write(outbox.mark_failed, "me", row, "no luck at all")).failed == 1
    assert await claim(source) == [2]
    assert application.rows("id, status, failure_reason")[0] == (1, "FAILED", "no luck at all")


async def test_row_with_expired_lease_can_be_claimed(
    application: ApplicationDatabase, source: ExternalDatabase
) -> None:
    fill(application, 1)
    assert await claim(source) == [1]
    application.run("UPDATE device_update_outbox SET lock_expires_at = 1")
    assert await source.read(external_outbox.seconds_until_due) == 0.0
    assert await claim(source, "another") == [1]


async def test_row_of_an_open_transaction_is_neither_seen_nor_waited_for(
    locking_application: ApplicationDatabase,
) -> None:
    with locking_application.opened() as source, closing(locking_application.connect()) as slow:
        enqueue(slow, 1, {"type": "x", "ref": {}})
        fill(locking_application, 1, 2)
        assert await claim(source) == [2, 3]
        slow.commit()
        # It is found although its id is lower than those claimed before.
        assert await claim(source) == [1]


async def test_row_locked_by_another_transaction_holds_back_its_device(
    locking_application: ApplicationDatabase,
) -> None:
    fill(locking_application, 1, 1, 2)
    with locking_application.opened() as source:
        with closing(locking_application.connect()) as operator:
            operator.cursor().execute("UPDATE device_update_outbox SET event_kind = 'y' WHERE id = 1")
            assert await claim(source) == [3]
            operator.rollback()
        assert await claim(source) == [1, 2]


async def test_operator_functions_work_on_an_external_outbox(
    application: ApplicationDatabase, source: ExternalDatabase
) -> None:
    fill(application, 1, 2)
    await source.write(external_outbox.mark_delivered, await claim(source, batch=1))
    assert [row.id for row in await source.read(outbox.list_rows, "DELIVERED", None, 10, 0, "shop")] == [1]
    assert [row.id for row in await source.read(outbox.list_rows, None, 2, 10)] == [2]
    row = await source.read(outbox.get_row, 1, "shop")
    assert row is not None
    assert (row.status, row.source, row.created_at <= (row.delivered_at or "")) == ("DELIVERED", "shop", True)
    counts = await source.read(outbox.counts)
    assert (counts["pending"], counts["failed"]) == (1, 0)
    assert await source.read(external_outbox.still_pending, [1, 2, 99]) == {2}
    assert await source.write(outbox.evict_delivered, -60, 10) == 1
    assert application.rows("id") == [(2,)]


async def test_failed_row_can_be_reset(application: ApplicationDatabase, source: ExternalDatabase) -> None:
    fill(application, 1)
    await claim(source)
    await source.write(outbox.mark_failed, "me", LeasedRow(1, 1, "", 0), "é" * 300)
    assert application.rows("failure_reason") == [("é" * 255,)]
    assert await claim(source) == []
    assert await source.write(outbox.retry, None) == 1
    assert await claim(source) == [1]


async def test_empty_outbox_gives_empty_results(application: ApplicationDatabase, source: ExternalDatabase) -> None:
    assert await claim(source) == []
    await source.write(external_outbox.mark_delivered, [])
    assert await source.read(external_outbox.still_pending, []) == set()
    assert await source.read(external_outbox.seconds_until_due) is None


async def test_many_held_back_rows_do_not_slow_down_a_claim(
    application: ApplicationDatabase, source: ExternalDatabase
) -> None:
    """A claim scans each row once; comparing it with all rows before it would take minutes."""
    with closing(application.connect()) as conn:
        mark = "?" if application.address.engine == "sqlite" else "%s"
        conn.cursor().executemany(
            "INSERT INTO device_update_outbox (device_id, event_kind, payload, next_attempt_at)"
            f" VALUES (1, 'x', {mark}, {mark})",
            [("{}", None if number else 2**50) for number in range(30_000)],
        )
        conn.commit()
    fill(application, 2)
    assert await claim(source) == [30_001]
    assert await claim(source) == []
