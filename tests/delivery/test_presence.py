import asyncio
import threading

import pytest

from restante.database.connection import Connection
from restante.database.database import Database
from restante.database.errors import DatabaseError, DatabaseUnavailable
from restante.database.queries import Query
from restante.delivery import presence as presence_module
from restante.delivery.device_presence import DevicePresence

LAST_SEEN = Query("last_seen", "SELECT device_id, last_seen_at FROM device_presence ORDER BY device_id")
HIDE_TABLE = Query("break", "ALTER TABLE device_presence RENAME TO gone")
RESTORE_TABLE = Query("mend", "ALTER TABLE gone RENAME TO device_presence")


def last_seen(database: Database) -> dict[int, int]:
    rows = database.read_now(lambda conn: conn.all(LAST_SEEN))
    return {row["device_id"]: row["last_seen_at"] for row in rows}


async def test_collected_times_are_written_once(database: Database, device: int, other_device: int) -> None:
    presence = DevicePresence(database)
    presence.seen = {device: 1_800_000_000.25, 999: 5.0}
    assert await presence.run_once() == 2
    assert last_seen(database) == {device: 1_800_000_000_250}
    assert await presence.run_once() == 0


async def test_last_seen_time_never_moves_back(database: Database, device: int) -> None:
    presence = DevicePresence(database)
    for at in (20.0, 10.0):
        presence.seen[device] = at
        await presence.run_once()
    assert last_seen(database)[device] == 20_000


async def test_large_fleets_are_written_in_batches(
    database: Database, device: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(presence_module, "BATCH", 10)
    presence = DevicePresence(database)
    presence.seen = dict.fromkeys(range(1, 26), 5.0)
    before = database.writes
    assert await presence.run_once() == 25
    assert database.writes - before == 3


async def test_times_that_were_not_written_are_kept_and_newer_ones_win(
    database: Database, device: int, other_device: int
) -> None:
    presence = DevicePresence(database)
    presence.seen = {device: 5.0, other_device: 5.0}
    database.write_now(lambda conn: conn.run(HIDE_TABLE))
    begun, go_on = threading.Event(), threading.Event()

    def hold(_conn: Connection) -> None:
        begun.set()
        assert go_on.wait(10)

    database.submit(hold)
    assert begun.wait(10)
    writing = asyncio.ensure_future(presence.run_once())
    await asyncio.sleep(0)
    presence.seen[device] = 6.0
    go_on.set()
    with pytest.raises(DatabaseError) as failed:
        await writing
    assert not isinstance(failed.value, DatabaseUnavailable)
    assert presence.seen == {device: 6.0, other_device: 5.0}
    database.write_now(lambda conn: conn.run(RESTORE_TABLE))
    await presence.run_once()
    assert last_seen(database) == {device: 6000, other_device: 5000}
