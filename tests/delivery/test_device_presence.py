"""Confirmed positions: kept in memory beside the last-seen times, written with them, never moved back."""

import pytest

from restante.core.cursor import START, Position
from restante.database.database import Database
from restante.database.errors import DatabaseError
from restante.database.queries import Query
from restante.delivery.device_presence import DevicePresence
from tests.defaults import append_signals
from tests.delivery.rows import signal

ROWS = Query("rows", "SELECT * FROM device_presence ORDER BY device_id")
RECEIPTS = Query("receipts", "SELECT device_id, n, at FROM device_receipts ORDER BY device_id, n")
HIDE_TABLE = Query("break", "ALTER TABLE device_presence RENAME TO gone")
RESTORE_TABLE = Query("mend", "ALTER TABLE gone RENAME TO device_presence")
REVOKE = Query("revoke", "UPDATE user_devices SET revoked_at = 1 WHERE id = :id")


def received(database: Database) -> dict[int, tuple[int, int]]:
    rows = database.read_now(lambda conn: conn.all(ROWS))
    return {row["device_id"]: (row["received_ms"], row["received_n"]) for row in rows}


def receipts(database: Database) -> list[tuple[int, int]]:
    return [(row["n"], row["at"]) for row in database.read_now(lambda conn: conn.all(RECEIPTS))]


async def poll(presence: DevicePresence, device: int, at: float, cursor: bytes) -> None:
    presence.seen[device] = at
    presence.confirm(device, cursor)
    await presence.run_once()


async def test_position_is_written_with_the_time_and_receipted_once(database: Database, device: int) -> None:
    presence = DevicePresence(database)
    await poll(presence, device, 10.0, b"5-1")
    await poll(presence, device, 20.0, b"5-1")
    await poll(presence, device, 30.0, b"9-4")
    assert received(database) == {device: (9, 4)}
    assert receipts(database) == [(1, 10_000), (4, 30_000)]


async def test_smaller_position_of_another_node_changes_nothing(database: Database, device: int) -> None:
    here, elsewhere = DevicePresence(database), DevicePresence(database)
    await poll(here, device, 10.0, b"9-4")
    await poll(elsewhere, device, 20.0, b"5-1")
    assert received(database) == {device: (9, 4)}
    assert receipts(database) == [(4, 10_000)]


async def test_greater_position_of_one_interval_is_kept(database: Database, device: int) -> None:
    presence = DevicePresence(database)
    presence.confirm(device, b"9-4")
    presence.confirm(device, b"10-3")
    presence.confirm(device, b"5-1")
    assert presence.confirmed_position(device) == Position(10, 3)
    assert presence.confirmed_position(device + 1) == START


async def test_positions_that_were_not_written_are_kept(database: Database, device: int, other_device: int) -> None:
    presence = DevicePresence(database)
    presence.seen = {device: 5.0, other_device: 5.0}
    presence.confirmed = {device: b"5-1", other_device: b"5-1"}
    database.write_now(lambda conn: conn.run(HIDE_TABLE))
    with pytest.raises(DatabaseError):
        await presence.run_once()
    presence.confirm(device, b"9-2")
    assert presence.confirmed_position(other_device) == Position(5, 1)
    database.write_now(lambda conn: conn.run(RESTORE_TABLE))
    await presence.run_once()
    assert received(database) == {device: (9, 2), other_device: (5, 1)}
    assert presence.confirmed_position(device) == START


async def test_receipts_are_trimmed_with_the_log(database: Database, device: int) -> None:
    presence = DevicePresence(database)
    database.write_now(append_signals, device, [signal(number) for number in range(150)], 10)
    await poll(presence, device, 10.0, b"5-120")
    await poll(presence, device, 20.0, b"5-145")
    assert receipts(database) == [(145, 20_000)]


async def test_revoked_device_is_never_overdue(database: Database, device: int) -> None:
    presence = DevicePresence(database)
    database.write_now(lambda conn: conn.run(REVOKE, id=device))
    await poll(presence, device, 10.0, b"5-1")
    (row,) = database.read_now(lambda conn: conn.all(ROWS))
    assert (row["last_seen_at"], row["overdue_at"]) == (10_000, None)


async def test_last_seen_is_answered_from_memory_until_it_is_written(database: Database, device: int) -> None:
    presence = DevicePresence(database)
    assert presence.newest_ms(device, 5) == 5
    assert presence.newest_ms(device, None) is None
    presence.seen[device] = 7.5
    assert presence.newest_ms(device, 5) == 7500
    assert presence.newest_ms(device, 9000) == 9000
    await presence.run_once()
    assert presence.last_seen(device) is None
