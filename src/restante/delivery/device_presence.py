"""When each device was last seen, and how far it has read its log: collected in memory and written in batches.

    poll with a cursor ─▶ memory: last seen, confirmed cursor ──every 30 seconds──▶ device_presence, device_receipts

A device proves that it has received its signals by the cursor that it sends with its next poll. The batch stores the
position, and one receipt if the position has moved. An idle poll writes nothing.

Invariants: a stored position and a stored time never move back, whichever node writes them. A crash loses at most one
interval; the next poll of each device restores it, because the device sends its cursor again.
"""

from collections.abc import Callable

import msgspec

from restante.core.cursor import START, Position, parse_cursor
from restante.database.connection import Connection
from restante.database.database import Database
from restante.database.queries import queries_beside
from restante.delivery.presence import Presence

SQL = queries_beside(__file__)

# A device has this long for its first poll before it counts as overdue.
FIRST_POLL_SECONDS = 600

# The time, in seconds since the epoch, at which a device that was seen at the given time counts as overdue.
OverdueAt = Callable[[int, float, bytes], float]


class DevicePresence(Presence):
    def __init__(self, database: Database, overdue_at: OverdueAt | None = None) -> None:
        super().__init__(database)
        self._overdue_at = overdue_at or _first_poll_overdue_at
        # Device id → the cursor of its last poll, once the server knows that it is one of the device's log. Polls write
        # to it directly.
        self.confirmed: dict[int, bytes] = {}
        # What is being written now.
        self._confirmed_before: dict[int, bytes] = {}

    def confirm(self, device_id: int, cursor: bytes) -> None:
        """Remember the cursor, unless a greater one is known. Polls with the newest cursor store it directly."""
        known = self.confirmed.get(device_id)
        if known is None or parse_cursor(cursor.decode()) > parse_cursor(known.decode()):
            self.confirmed[device_id] = cursor

    def confirmed_position(self, device_id: int) -> Position:
        """The position that the device has confirmed, as far as it is not written yet."""
        cursors = (self.confirmed.get(device_id), self._confirmed_before.get(device_id))
        return max((parse_cursor(cursor.decode()) for cursor in cursors if cursor is not None), default=START)

    def overdue_at_ms(self, device_id: int, seen: float) -> int:
        """When the device counts as overdue, if it was last seen at this time."""
        return int(self._overdue_at(device_id, seen, self.confirmed.get(device_id, b"")) * 1000)

    async def run_once(self) -> int:
        self._confirmed_before, self.confirmed = self.confirmed, {}
        try:
            return await super().run_once()
        except BaseException:
            # The next batch writes them again: a stored position never moves back.
            for device_id, cursor in self._confirmed_before.items():
                self.confirm(device_id, cursor)
            raise
        finally:
            self._confirmed_before = {}

    async def _store(self, seen: list[tuple[int, float]]) -> None:
        rows = []
        for device_id, at in seen:
            cursor = self._confirmed_before.get(device_id, b"")
            ms, _, n = (cursor or b"0-0").partition(b"-")
            overdue_at = int(self._overdue_at(device_id, at, cursor) * 1000)
            rows.append((device_id, int(at * 1000), overdue_at, int(ms), int(n)))
        await self._database.write(write_presence, rows)


def _first_poll_overdue_at(_device_id: int, seen: float, _cursor: bytes) -> float:
    return seen + FIRST_POLL_SECONDS


def write_presence(conn: Connection, rows: list[tuple[int, int, int, int, int]]) -> None:
    """Store (device id, last seen, overdue at, position) of devices, in the order of their ids; times in
    milliseconds. Devices that do not exist are left out."""
    batch = msgspec.json.encode(rows).decode()
    advanced = [device_id for (device_id,) in conn.values(SQL.add_receipts, rows=batch)]
    if advanced:
        conn.run(SQL.trim_receipts, devices=msgspec.json.encode(advanced).decode())
    conn.run(SQL.save_presence, rows=batch)
