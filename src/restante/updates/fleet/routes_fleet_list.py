"""Routes for the list of the fleet: filtered pages, counts, and an export that is sent in parts.

A caller sees the devices of the users that its grants open; others' devices do not exist for it. Last polls that are
only in memory yet are shown, too.

A spreadsheet runs a cell that begins with `=` or a similar character as a formula. The texts in these cells come from
devices, so such a cell gets a leading apostrophe, which makes spreadsheets show it as text.
"""

import csv
import io
from collections.abc import AsyncIterator, Iterable
from typing import Any

import msgspec

from restante.core.errors import BadInput
from restante.core.iso_time import iso_precise, parse_iso
from restante.database.database import Database
from restante.delivery.device_presence import DevicePresence
from restante.identity.grants import AllowedIds, Area
from restante.updates.fleet import selection
from restante.updates.fleet.device_filter import QUERY_SCHEMAS, DeviceFilter, parse_query
from restante.updates.fleet.device_rows import DeviceRow
from restante.updates.fleet.fleet_counts import Counts, counted
from restante.updates.fleet.selection import FleetPage
from restante.updates.response_format import RESPONSE_FORMAT
from restante.web.paging import LIMIT_DEFAULT, LIMIT_MAX
from restante.web.request import ApiRequest
from restante.web.response import JSON, NO_STORE, ApiResponse
from restante.web.routes import Access, Header, Query, ResponseInfo, Route, RouteGroup

TAG = "fleet"
EXPORT_STEP = 500
FORMATS = ("csv", "json")
_FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r")

_MEANINGS = {
    "name": "only devices whose name begins with this",
    "tag": "only devices with this tag, or with all of several tags separated by commas",
    "status": "only devices with this status",
    "platform": "only devices of this platform",
    "agent_version": "only devices whose agent reported this version",
    "config_version": "only devices whose install config is in this state, or that fetched this version last",
    "seen_before": "only devices that have not polled since this time, or for this long",
    "seen_after": "only devices that have polled since this time, or within this long",
    "overdue": "only devices that should have polled by now; `false`: only the others",
    "certificate_expires_before": "only devices with a certificate that ends before this time, or within this long",
    "user_id": "only devices of this user",
    "group": "only devices of this group, by its name or id",
}
FILTER_QUERY = tuple(Query(name, meaning, QUERY_SCHEMAS[name]) for name, meaning in _MEANINGS.items())
_PAGE = (
    Query("limit", "the most items to return", {"type": "integer", "minimum": 1, "maximum": LIMIT_MAX}),
    Query("after", "the `next` of the previous page", {"type": "string"}),
)
_FORMAT = Query("format", "the format of the file", {"type": "string", "enum": list(FORMATS), "default": "csv"})
_FILE_NAME = Header("Content-Disposition", "The name of the file.", required=True)


class FleetListRoutes:
    def __init__(self, database: Database, presence: DevicePresence) -> None:
        self._database = database
        self._presence = presence

    def routes(self) -> list[Route]:
        group = RouteGroup(TAG, RESPONSE_FORMAT, prefix="/apiv1/devices", errors=(400,), area=Area.updates)
        file = ResponseInfo(
            200, str, (_FILE_NAME,), "text/csv", other_media_types=(("application/json", list[DeviceRow]),)
        )
        return [
            group.get("", self.list_page, Access.team_read, "List devices", query=(*FILTER_QUERY, *_PAGE)),
            group.get("/counts", self.counts, Access.team_read, "Count devices", query=FILTER_QUERY),
            group.get(
                "/export",
                self.export,
                Access.team_read,
                "Export devices as a file",
                query=(*FILTER_QUERY, _FORMAT),
                responses=(file,),
            ),
        ]

    async def list_page(self, request: ApiRequest) -> FleetPage:
        """Devices that match every filter, in the order of the index that the filters use: by id, or, with `overdue`,
        `seen_before`, `seen_after`, `certificate_expires_before` or `name` alone, by that. A page may have fewer items
        than `limit`, or none, although there is a next one."""
        wanted = filter_of(request, "limit", "after")
        limit = request.query_int("limit", LIMIT_DEFAULT, 1, LIMIT_MAX)
        page = await self._database.read(selection.page, wanted, request.query_text("after"), limit, request.allowed)
        return FleetPage([with_last_poll(row, self._presence) for row in page.items], page.next)

    async def counts(self, request: ApiRequest) -> Counts:
        """Exact up to 10,000,000 examined devices; beyond, `is_exact` is false. Counts of
        many devices are kept for a while: `counted_at` is their time."""
        return await counted(self._database, filter_of(request), request.allowed)

    async def export(self, request: ApiRequest) -> ApiResponse:
        """All devices that match, as CSV with a header row or as a JSON array. It is sent in parts, however many there
        are; a device that changes meanwhile may be missing or appear twice."""
        wanted = filter_of(request, "format")
        given = request.query_text("format")
        format = FORMATS[0] if given is None else given
        if format not in FORMATS:
            raise BadInput("format", " or ".join(FORMATS))
        # Refuses what is wrong with the filter before the first part is sent.
        first = await self._database.read(selection.page, wanted, None, EXPORT_STEP, request.allowed)
        pages = self._pages(wanted, first, request.allowed)
        kind = JSON if format == "json" else (b"content-type", b"text/csv; charset=utf-8")
        attachment = (b"content-disposition", b'attachment; filename="devices.%b"' % format.encode())
        parts = _json_parts(pages) if format == "json" else _csv_parts(pages)
        return ApiResponse(200, (kind, NO_STORE, attachment), stream=parts)

    async def _pages(self, wanted: DeviceFilter, first: FleetPage, users: AllowedIds) -> AsyncIterator[list[DeviceRow]]:
        page = first
        while True:
            yield [with_last_poll(row, self._presence) for row in page.items]
            if page.next is None:
                return
            page = await self._database.read(selection.page, wanted, page.next, EXPORT_STEP, users)


def with_last_poll(row: DeviceRow, presence: DevicePresence) -> DeviceRow:
    """The row with the last poll that this server has in memory, if it is newer than the stored one."""
    seen = presence.last_seen(row.id)
    if seen is None or row.status == "revoked":
        return row
    stored = 0 if row.last_seen_at is None else parse_iso(row.last_seen_at, "last_seen_at")
    if stored >= int(seen * 1000):
        return row
    return msgspec.structs.replace(
        row,
        last_seen_at=iso_precise(int(seen * 1000)),
        overdue_at=iso_precise(presence.overdue_at_ms(row.id, seen)),
        is_overdue=False,
    )


def filter_of(request: ApiRequest, *others: str) -> DeviceFilter:
    """The filter of the query; `others` are the route's own parameters."""
    return parse_query(request.http.query_params.multi_items(), others)


async def _csv_parts(pages: AsyncIterator[list[DeviceRow]]) -> AsyncIterator[bytes]:
    yield _csv_lines([DeviceRow.__struct_fields__])
    async for page in pages:
        if page:
            yield _csv_lines(_cells(row) for row in page)


async def _json_parts(pages: AsyncIterator[list[DeviceRow]]) -> AsyncIterator[bytes]:
    separator = b"[\n"
    async for page in pages:
        for row in page:
            yield separator + msgspec.json.encode(row)
            separator = b",\n"
    yield b"[]\n" if separator == b"[\n" else b"\n]\n"


def _csv_lines(rows: Iterable[Iterable[Any]]) -> bytes:
    text = io.StringIO()
    csv.writer(text).writerows(rows)
    return text.getvalue().encode()


def _cells(row: DeviceRow) -> list[Any]:
    return [_cell(getattr(row, name)) for name in DeviceRow.__struct_fields__]


def _cell(value: Any) -> Any:
    if isinstance(value, list):
        value = " ".join(value)
    if isinstance(value, bool):
        return "true" if value else "false"
    return f"'{value}" if isinstance(value, str) and value.startswith(_FORMULA_STARTS) else value
