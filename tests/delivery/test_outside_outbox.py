from collections.abc import Iterator
from contextlib import closing

import pytest

from restante.core.backoff import Backoff
from restante.database.outside import OutsideDatabase
from restante.delivery import outbox, outside_outbox
from restante.delivery.outbox import HeldRow
from restante.outbox import enqueue
from tests.delivery.outside import Place

LEASE_SECONDS = 60.0


@pytest.fixture
def source(place: Place) -> Iterator[OutsideDatabase]:
    with place.opened() as source:
        yield source


def fill(place: Place, *device_ids: int) -> None:
    with closing(place.connect()) as conn:
        for number, device_id in enumerate(device_ids):
            enqueue(conn, device_id, {"type": "x", "ref": {"number": number}})
        conn.commit()


async def claim(source: OutsideDatabase, dispatcher: str = "me", batch: int = 100) -> list[int]:
    rows = await source.write_alone(outside_outbox.claim, dispatcher, LEASE_SECONDS, batch)
    return [row.id for row in rows]


async def test_the_oldest_rows_are_leased_once(place: Place, source: OutsideDatabase) -> None:
    fill(place, 1, 2, 3)
    assert await claim(source, batch=2) == [1, 2]
    assert await claim(source, "another") == [3]
    assert await claim(source) == []


async def test_a_leased_row_holds_back_the_later_ones_of_its_device_only(place: Place, source: OutsideDatabase) -> None:
    fill(place, 1, 1, 2, 1)
    assert await claim(source, batch=1) == [1]
    assert await claim(source, "another") == [3]


async def test_a_row_that_waits_for_its_retry_holds_back_its_device_until_it_failed(
    place: Place, source: OutsideDatabase
) -> None:
    fill(place, 1, 1, 2)
    assert await claim(source, batch=1) == [1]
    row = HeldRow(1, 1, "", 0)
    patient = Backoff(base_seconds=3600, max_seconds=3600)
    assert (await source.write(outbox.put_back, "me", row, "no luck", patient)).retried == 1
    await source.write(outside_outbox.mark_delivered, await claim(source))
    assert place.rows()[2] == (3, "DELIVERED")
    assert 3000 < (await source.read(outside_outbox.seconds_until_due) or 0) <= 3600
    place.run("UPDATE device_update_outbox SET next_attempt_at = 1 WHERE id = 1")
    assert await claim(source, batch=1) == [1]
    assert (await source.write(outbox.give_up, "me", row, "no luck at all")).failed == 1
    assert await claim(source) == [2]
    assert place.rows("id, status, failure_reason")[0] == (1, "FAILED", "no luck at all")


async def test_a_lease_that_is_over_is_anybodys(place: Place, source: OutsideDatabase) -> None:
    fill(place, 1)
    assert await claim(source) == [1]
    place.run("UPDATE device_update_outbox SET lock_expires_at = 1")
    assert await source.read(outside_outbox.seconds_until_due) == 0.0
    assert await claim(source, "another") == [1]


async def test_a_row_in_an_open_transaction_is_neither_seen_nor_waited_for(locking_place: Place) -> None:
    with locking_place.opened() as source, closing(locking_place.connect()) as slow:
        enqueue(slow, 1, {"type": "x", "ref": {}})
        fill(locking_place, 1, 2)
        assert await claim(source) == [2, 3]
        slow.commit()
        # Its id is lower than what was last seen, and yet it is found.
        assert await claim(source) == [1]


async def test_a_row_that_somebody_has_locked_holds_back_its_device(locking_place: Place) -> None:
    fill(locking_place, 1, 1, 2)
    with locking_place.opened() as source:
        with closing(locking_place.connect()) as operator:
            operator.cursor().execute("UPDATE device_update_outbox SET event_kind = 'y' WHERE id = 1")
            assert await claim(source) == [3]
            operator.rollback()
        assert await claim(source) == [1, 2]


async def test_delivered_rows_are_marked_and_listed_as_the_servers_own_are(
    place: Place, source: OutsideDatabase
) -> None:
    fill(place, 1, 2)
    await source.write(outside_outbox.mark_delivered, await claim(source, batch=1))
    assert [row.id for row in await source.read(outbox.list_rows, "DELIVERED", None, 10, 0, "shop")] == [1]
    assert [row.id for row in await source.read(outbox.list_rows, None, 2, 10)] == [2]
    row = await source.read(outbox.get_row, 1, "shop")
    assert row is not None
    assert (row.status, row.source, row.created_at <= (row.delivered_at or 0)) == ("DELIVERED", "shop", True)
    counts = await source.read(outbox.counts)
    assert (counts["pending"], counts["failed"]) == (1, 0)
    assert await source.read(outside_outbox.still_pending, [1, 2, 99]) == {2}
    assert await source.write(outbox.evict_delivered, -60, 10) == 1
    assert place.rows("id") == [(2,)]


async def test_a_failed_row_gets_a_new_start(place: Place, source: OutsideDatabase) -> None:
    fill(place, 1)
    await claim(source)
    await source.write(outbox.give_up, "me", HeldRow(1, 1, "", 0), "é" * 300)
    assert place.rows("failure_reason") == [("é" * 255,)]
    assert await claim(source) == []
    assert await source.write(outbox.retry, None) == 1
    assert await claim(source) == [1]


async def test_nothing_to_do_costs_nothing(place: Place, source: OutsideDatabase) -> None:
    assert await claim(source) == []
    await source.write(outside_outbox.mark_delivered, [])
    assert await source.read(outside_outbox.still_pending, []) == set()
    assert await source.read(outside_outbox.seconds_until_due) is None


async def test_thirty_thousand_rows_behind_one_that_waits_do_not_hide_the_next_device(
    place: Place, source: OutsideDatabase
) -> None:
    """Each of them is looked at once in a claim; were it compared with all before it, this would take minutes."""
    with closing(place.connect()) as conn:
        mark = "?" if place.address.engine == "sqlite" else "%s"
        conn.cursor().executemany(
            "INSERT INTO device_update_outbox (device_id, event_kind, payload, next_attempt_at)"
            f" VALUES (1, 'x', {mark}, {mark})",
            [("{}", None if number else 2**50) for number in range(30_000)],
        )
        conn.commit()
    fill(place, 2)
    assert await claim(source) == [30_001]
    assert await claim(source) == []
