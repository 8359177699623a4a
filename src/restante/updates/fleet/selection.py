"""The devices that a filter selects: pages, and ids for bulk jobs.

A selection examines a bounded number of devices, so a page costs the same however many devices there are. If the
filter's other conditions refuse most of the examined devices, a page has fewer items than requested, even none, and
still names the next one. All pages of a list are read from the same index, which `next` names.

Invariant: a device whose fields do not change while pages are read is on exactly one of them.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from restante.database.connection import Connection
from restante.identity.grants import ALL_IDS, AllowedIds
from restante.updates.fleet import groups
from restante.updates.fleet.conditions import Condition, conditions_of
from restante.updates.fleet.device_filter import DeviceFilter
from restante.updates.fleet.device_rows import DeviceRow, rows_of
from restante.updates.fleet.index_reader import (
    FEW,
    Examined,
    Place,
    choose,
    first_with_few,
    parse_place,
    place_text,
    reader_at,
    reader_of,
)

# How many devices a page and a page of ids examine at most.
PAGE_SCAN = 2000
IDS_SCAN = 5000


class FleetPage(msgspec.Struct):
    """`next` is the `after` of the next page, or None on the last page. A page with a next one may have fewer items
    than asked for, or none."""

    items: list[DeviceRow]
    next: str | None


@dataclass(frozen=True, slots=True)
class IdPage:
    """Device ids in ascending order. `next`: the id after which to continue, None at the end."""

    ids: list[int]
    next: int | None


def page(
    conn: Connection, wanted: DeviceFilter, after: str | None, limit: int, users: AllowedIds = ALL_IDS
) -> FleetPage:
    """At most `limit` devices of the allowed users that match the filter, after the place that `after` names."""
    conditions = _conditions(conn, groups.resolve(conn, wanted, users), users)
    place = None if after is None else parse_place(after, "after")
    reader = choose(conn, conditions) if place is None else reader_at(conditions, place, "after")
    found: list[Examined] = []
    examined, is_end = 0, False
    while len(found) <= limit and examined < PAGE_SCAN and not is_end:
        step = reader.step_size(limit + 1 - len(found), PAGE_SCAN - examined)
        read = reader.read(conn, place, step)
        examined, is_end = examined + len(read), len(read) < step
        found.extend(each for each in read if each.is_match)
        if read:
            place = Place(reader.index.name, read[-1].key, read[-1].device_id)
    if len(found) > limit:
        place = Place(reader.index.name, found[limit - 1].key, found[limit - 1].device_id)
    is_last = (is_end and len(found) <= limit) or place is None
    rows = rows_of(conn, [each.device_id for each in found[:limit]])
    return FleetPage(rows, None if is_last or place is None else place_text(place))


def ids_after(conn: Connection, wanted: DeviceFilter, after_id: int, limit: int, users: AllowedIds = ALL_IDS) -> IdPage:
    """At most `limit` ids greater than `after_id` of devices that match the filter, in ascending order.

    For jobs: each call examines a bounded number of devices, and `next` names the id after which to continue. A page
    with a next one may have fewer ids than requested, or none.
    """
    conditions = _conditions(conn, groups.resolve(conn, wanted, users), users)
    few = first_with_few(conn, conditions)
    if few is not None:
        read = reader_of(few, conditions).read(conn, None, FEW)
        ids = sorted(each.device_id for each in read if each.is_match and each.device_id > after_id)
        return IdPage(ids[:limit], ids[limit - 1] if len(ids) > limit else None)
    by_id = [each for each in conditions if each.index is not None and each.index.key is None]
    reader = reader_of(by_id[0] if by_id else None, conditions)
    found: list[int] = []
    last_id, examined = after_id, 0
    while examined < IDS_SCAN:
        step = reader.step_size(limit - len(found), IDS_SCAN - examined)
        read = reader.read(conn, Place(reader.index.name, None, last_id), step)
        examined += len(read)
        for each in read:
            last_id = each.device_id
            if each.is_match:
                found.append(last_id)
                if len(found) == limit:
                    return IdPage(found, last_id)
        if len(read) < step:
            return IdPage(found, None)
    return IdPage(found, last_id)


def matches(conn: Connection, wanted: DeviceFilter, device_id: int, users: AllowedIds = ALL_IDS) -> bool:
    """Whether the filter selects this device now: a job checks it again before it acts on a device."""
    reader = reader_of(None, _conditions(conn, groups.resolve(conn, wanted, users), users))
    read = reader.read(conn, Place(reader.index.name, None, device_id - 1), 1)
    return any(each.device_id == device_id and each.is_match for each in read)


def _conditions(conn: Connection, filters: Sequence[DeviceFilter], users: AllowedIds) -> list[Condition]:
    return conditions_of(filters, users, conn.now_ms)
