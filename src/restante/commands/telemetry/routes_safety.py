"""Routes for safety events: collectors report them in batches; operators list them and export them as CSV or JSON.

A spreadsheet runs a cell that begins with `=` or a similar character as a formula. The texts in these cells come from
collectors, so such a cell gets a leading apostrophe, which makes spreadsheets show it as text. Numbers stay numbers.
"""

import csv
import io
from collections.abc import Iterable
from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from restante.commands.collector_budgets import CollectorBudgets
from restante.commands.counters import CommandCounters
from restante.commands.response_format import RESPONSE_FORMAT
from restante.commands.telemetry import safety_events
from restante.commands.telemetry.safety_events import ACTIONS, EVENTS_MAX, ReportedEvent, SafetyEvent, SafetyFilter
from restante.commands.telemetry.telemetry_records import RecordError
from restante.core.decoding import INT64_MAX
from restante.core.errors import BadInput
from restante.core.iso_time import iso_whole_seconds
from restante.database.database import Database
from restante.database.lists.filtered_list import StateCounts
from restante.database.paging import Page, PageRequest
from restante.identity.grants import Area
from restante.web.content_coding import read_batch_body
from restante.web.paging import PAGE_QUERY, TIME, check_filters, counted, page_request_of, query_moment
from restante.web.request import ApiRequest
from restante.web.response import NO_STORE, ApiResponse
from restante.web.routes import Access, Header, Query, RequestBody, ResponseInfo, Route, RouteGroup

UNPACKED_BYTES_MAX = 8 * 1024 * 1024
EXPORT_ROWS_MAX = 50_000
EXPORT_BYTES_MAX = 8 * 1024 * 1024
FORMATS = ("csv", "json")
# Characters that start a formula: also white space that spreadsheets skip, and full-width forms that some accept.
_FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠")
# Spreadsheets recognise UTF-8 by the byte order mark.
_BYTE_ORDER_MARK = "\ufeff"

_ID = {"type": "integer", "minimum": 1, "maximum": INT64_MAX}
_FILTERS = (
    Query("site_id", "only events of this site", _ID),
    Query("miner_id", "only events of this miner", _ID),
    Query("device_id", "only events that this collector reported", _ID),
    Query("action", "only events with this action", {"type": "string", "enum": list(ACTIONS)}),
    Query("since", "at this time or later", TIME),
    Query("until", "before this time", TIME),
    Query("miner_known", "only events of miners that are registered at the site, or only others", {"type": "boolean"}),
)
_AFTER = {"type": "integer", "minimum": 0, "maximum": INT64_MAX}
_EXPORT = (
    Query("format", "the file format", {"type": "string", "enum": list(FORMATS), "default": "json"}),
    Query("limit", "most events to export", {"type": "integer", "minimum": 1, "maximum": EXPORT_ROWS_MAX}),
    Query("after", "the `next` value (CSV: X-Next header) of the previous export", _AFTER),
)
_EXAMPLE = {
    "events": [
        {
            "miner_id": 1,
            "action": "THERMAL_SHUTDOWN",
            "reason": "over the limit",
            "temp_max": 98.5,
            "ts": "2026-01-18T10:30:00Z",
            "snapshot_json": {"fan": 0},
        }
    ]
}
_FILE = (
    Header("Content-Disposition", "The name of the file.", required=True),
    Header("X-Next", "With CSV: the `after` of the next export, if there are more events.", {"type": "integer"}),
)


class SafetyReport(msgspec.Struct):
    """Each event is checked on its own."""

    events: Annotated[list[ReportedEvent], Meta(min_length=1, max_length=EVENTS_MAX)]


class SafetyResponse(msgspec.Struct):
    """`status`: success, partial, or failed if no event was valid. `unknown_miner_events`: how many of the processed
    events are of miners that are not registered; missing if none is."""

    status: Literal["success", "partial", "failed"]
    processed: int
    failed: int
    received_at: str
    errors: list[RecordError] | UnsetType = UNSET
    unknown_miner_events: int | UnsetType = UNSET


class SafetyRoutes:
    def __init__(
        self,
        database: Database,
        counters: CommandCounters,
        budgets: CollectorBudgets,
        unknown_miners_max: int,
        body_bytes_max: int,
    ) -> None:
        self._database = database
        self._counters = counters
        self._budgets = budgets
        self._unknown_miners_max = unknown_miners_max
        self._body_bytes_max = body_bytes_max

    def routes(self) -> list[Route]:
        collector = RouteGroup("collector", RESPONSE_FORMAT)
        admin = RouteGroup(
            "safety events", RESPONSE_FORMAT, prefix="/api/edge/v1/admin/safety-events", area=Area.commands
        )
        return [
            collector.post(
                "/api/edge/v1/events/safety/batch",
                self.report,
                Access.collector,
                "Report safety events",
                errors=(400, 413, 415, 429),
                request_body=RequestBody(SafetyReport),
                examples=(_EXAMPLE,),
                responses=(
                    ResponseInfo(200, SafetyResponse),
                    ResponseInfo(207, SafetyResponse, meaning="Some events are invalid; the valid ones are stored."),
                ),
            ),
            admin.get(
                "", self.list_page, Access.read, "List safety events, newest first", query=(*_FILTERS, *PAGE_QUERY)
            ),
            admin.get("/counts", self.counts, Access.read, "Count safety events by action", query=_FILTERS),
            admin.get(
                "/export",
                self.export,
                Access.read,
                "Export safety events as a file",
                query=(*_FILTERS, *_EXPORT),
                responses=(ResponseInfo(200, Page[SafetyEvent], _FILE, other_media_types=(("text/csv", str),)),),
            ),
        ]

    async def report(self, request: ApiRequest) -> ApiResponse:
        """The body is {events: [{miner_id, action, reason, temp_max, ts, snapshot_json}]}; it may be compressed with
        Content-Encoding: gzip. Valid events are stored even if others are invalid; then the status is 207 and `errors`
        lists the invalid ones. An event that was sent before is stored once. Events of miners that are not registered
        yet are kept, with `miner_known` false until they are."""
        body = await read_batch_body(request.http, self._body_bytes_max, UNPACKED_BYTES_MAX)
        self._budgets.admit_safety_events(request.collector.device_id, len(body))
        result = await self._database.write(
            safety_events.store, request.collector, safety_events.parse_batch(body), self._unknown_miners_max
        )
        self._counters.count_unknown(request.collector.site_id, "safety", result.unknown_count)
        failed = len(result.errors)
        response = SafetyResponse(
            status="success" if not failed else "partial" if result.processed else "failed",
            processed=result.processed,
            failed=failed,
            received_at=iso_whole_seconds(result.received_at),
            errors=result.errors or UNSET,
            unknown_miner_events=result.unknown_count or UNSET,
        )
        return RESPONSE_FORMAT.success(response, 207 if failed else 200)

    async def list_page(self, request: ApiRequest) -> Page[SafetyEvent]:
        """A page may have fewer items than `limit`, or none, although there is a next one: it examines a bounded number
        of events."""
        check_filters(request, (*_FILTERS, *PAGE_QUERY))
        return await self._database.read(
            safety_events.list_page, _filter_of(request), page_request_of(request), request.allowed
        )

    async def counts(self, request: ApiRequest) -> StateCounts:
        """By action. Exact up to 10,000,000 examined events; beyond, `is_exact` is false. Counts of
        long lists are kept for a while: `counted_at` is their time."""
        check_filters(request, _FILTERS)
        filters = _filter_of(request)
        return await counted(request, self._database, lambda: safety_events.counting(filters, request.allowed))

    async def export(self, request: ApiRequest) -> ApiResponse:
        """CSV with a header row, or JSON like the list. If there are more events than the limit, `next` (for CSV: the
        header X-Next) is the `after` of the next export. A file has at most 8 MiB of events."""
        check_filters(request, (*_FILTERS, *_EXPORT))
        text = request.query_text("format")
        file_format = "json" if text is None else text
        if file_format not in FORMATS:
            raise BadInput("format", f"one of {', '.join(FORMATS)}")
        limit = request.query_int("limit", EXPORT_ROWS_MAX, 1, EXPORT_ROWS_MAX)
        page_request = PageRequest(limit, request.query_int("after", 0, 0, INT64_MAX))
        filters = _filter_of(request)
        page = await self._database.read(
            safety_events.list_page, filters, page_request, request.allowed, EXPORT_BYTES_MAX
        )
        return _as_csv(page) if file_format == "csv" else _as_file(RESPONSE_FORMAT.success(page), "json")


def _as_csv(page: Page[SafetyEvent]) -> ApiResponse:
    content_type = (b"content-type", b"text/csv; charset=utf-8; header=present")
    response = _as_file(ApiResponse(200, (content_type, NO_STORE), csv_text(page.items, SafetyEvent)), "csv")
    return response if page.next is None else response.with_headers((b"x-next", b"%d" % page.next))


def _as_file(response: ApiResponse, suffix: str) -> ApiResponse:
    disposition = f'attachment; filename="safety-events.{suffix}"'
    return response.with_headers((b"content-disposition", disposition.encode()))


def csv_text(rows: Iterable[msgspec.Struct], row_type: type[msgspec.Struct]) -> bytes:
    """The rows below a header row with the field names, quoted as in RFC 4180."""
    out = io.StringIO(newline="")
    writer = csv.writer(out, lineterminator="\r\n")
    writer.writerow(row_type.__struct_fields__)
    for row in rows:
        writer.writerow([_cell(getattr(row, name)) for name in row_type.__struct_fields__])
    return (_BYTE_ORDER_MARK + out.getvalue()).encode()


def _cell(value: Any) -> Any:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, msgspec.Raw):
        value = bytes(value).decode()
    if isinstance(value, str) and value.lstrip(" ").startswith(_FORMULA_STARTS):
        return f"'{value}"
    return value


def _filter_of(request: ApiRequest) -> SafetyFilter:
    action = request.query_text("action")
    if action is not None and action not in ACTIONS:
        raise BadInput("action", f"one of {', '.join(ACTIONS)}")
    return SafetyFilter(
        site_id=request.query_int("site_id", 0, 1, INT64_MAX) or None,
        miner_id=request.query_int("miner_id", 0, 1, INT64_MAX) or None,
        device_id=request.query_int("device_id", 0, 1, INT64_MAX) or None,
        action=action,
        since_ms=query_moment(request, "since"),
        until_ms=query_moment(request, "until"),
        miner_known=request.query_bool("miner_known"),
    )
