"""Safety events: collectors report them in batches; operators query them and take them away as CSV or JSON."""

from functools import partial

import msgspec
from msgspec import UNSET, UnsetType

from restante.commands import safety
from restante.commands.export import csv_text
from restante.commands.safety import ACTIONS, SafetyEvent, SafetyFilter
from restante.commands.telemetry_records import RecordError
from restante.commands.wire import SHAPE, iso, parse_iso
from restante.core.errors import BadInput
from restante.database.database import Database
from restante.web.answer import NO_STORE, Answer
from restante.web.ask import BODY_BYTES_MAX, INT64_MAX, Ask
from restante.web.content_coding import read_json_body
from restante.web.paging import PAGE_QUERY, Page, Window, window_of
from restante.web.routes import Access, Query, Route

UNPACKED_BYTES_MAX = 8 * 1024 * 1024
EXPORT_ROWS_MAX = 50_000
FORMATS = ("csv", "json")

_ID = {"type": "integer", "minimum": 1}
_TIME = {"type": "string", "format": "date-time"}
_FILTERS = (
    Query("site_id", "of which site", _ID),
    Query("miner_id", "of which miner", _ID),
    Query("device_id", "reported by which collector", _ID),
    Query("action", "of which kind", {"type": "string", "enum": list(ACTIONS)}),
    Query("since", "at this time or later", _TIME),
    Query("until", "before this time", _TIME),
)
_EXPORT = (
    Query("format", "how it is written", {"type": "string", "enum": list(FORMATS), "default": "json"}),
    Query("limit", "how many at most", {"type": "integer", "minimum": 1, "maximum": EXPORT_ROWS_MAX}),
    Query("after", "where the export before ended: its `next`, or X-Next of a CSV", {"type": "integer", "minimum": 0}),
)


class SafetyAnswer(msgspec.Struct):
    """`status`: success, partial, or failed where no event was good."""

    status: str
    processed: int
    failed: int
    received_at: str
    errors: list[RecordError] | UnsetType = UNSET


class SafetyRoutes:
    def __init__(self, database: Database, body_bytes_max: int = BODY_BYTES_MAX) -> None:
        self._database = database
        self._body_bytes_max = body_bytes_max

    def routes(self) -> list[Route]:
        row = partial(Route, shape=SHAPE)
        admin = "/api/edge/v1/admin/safety-events"
        return [
            row(
                "POST",
                "/api/edge/v1/events/safety/batch",
                self.report,
                Access.collector,
                "Report safety events",
                tag="collector",
                refusals=(207, 400, 413, 415),
            ),
            row(
                "GET",
                admin,
                self.list_page,
                Access.read,
                "Safety events, newest first",
                tag="safety events",
                query=(*_FILTERS, *PAGE_QUERY),
            ),
            row(
                "GET",
                f"{admin}/export",
                self.export,
                Access.read,
                "Safety events as a file",
                tag="safety events",
                query=(*_FILTERS, *_EXPORT),
            ),
        ]

    async def report(self, ask: Ask) -> Answer:
        """The body is {events: [{miner_id, action, reason, temp_max, ts, snapshot_json}]}; it may be packed with
        Content-Encoding: gzip. Good events are kept whatever the others are: 207 and `errors` tell of the others. An
        event that was sent before is kept once."""
        body = await read_json_body(ask.request, self._body_bytes_max, UNPACKED_BYTES_MAX)
        kept = await self._database.write(safety.keep, ask.collector, safety.parse_batch(body))
        failed = len(kept.errors)
        answer = SafetyAnswer(
            status="success" if not failed else "partial" if kept.processed else "failed",
            processed=kept.processed,
            failed=failed,
            received_at=iso(kept.received_at),
            errors=kept.errors or UNSET,
        )
        return SHAPE.success(answer, 207 if failed else 200)

    async def list_page(self, ask: Ask) -> Page[SafetyEvent]:
        return await self._database.read(safety.list_page, _filter_of(ask), window_of(ask))

    async def export(self, ask: Ask) -> Answer:
        """CSV with the columns' names on top, or JSON as the list has it. Where there is more than the limit, `next`
        (of a CSV: the header X-Next) is where to go on."""
        asked = ask.query_text("format")
        form = "json" if asked is None else asked
        if form not in FORMATS:
            raise BadInput("format", f"one of {', '.join(FORMATS)}")
        limit = ask.query_int("limit", EXPORT_ROWS_MAX, 1, EXPORT_ROWS_MAX)
        window = Window(limit, ask.query_int("after", 0, 0, INT64_MAX))
        page = await self._database.read(safety.list_page, _filter_of(ask), window)
        return _as_csv(page) if form == "csv" else _as_file(SHAPE.success(page), "json")


def _as_csv(page: Page[SafetyEvent]) -> Answer:
    kind = (b"content-type", b"text/csv; charset=utf-8; header=present")
    answer = _as_file(Answer(200, (kind, NO_STORE), csv_text(page.items, SafetyEvent)), "csv")
    return answer if page.next is None else answer.with_headers((b"x-next", b"%d" % page.next))


def _as_file(answer: Answer, suffix: str) -> Answer:
    name = f'attachment; filename="safety-events.{suffix}"'
    return answer.with_headers((b"content-disposition", name.encode()))


def _filter_of(ask: Ask) -> SafetyFilter:
    action = ask.query_text("action")
    if action is not None and action not in ACTIONS:
        raise BadInput("action", f"one of {', '.join(ACTIONS)}")
    return SafetyFilter(
        site_id=ask.query_int("site_id", 0, 1, INT64_MAX) or None,
        miner_id=ask.query_int("miner_id", 0, 1, INT64_MAX) or None,
        device_id=ask.query_int("device_id", 0, 1, INT64_MAX) or None,
        action=action,
        since_ms=_time_of(ask, "since"),
        until_ms=_time_of(ask, "until"),
    )


def _time_of(ask: Ask, name: str) -> int | None:
    text = ask.query_text(name)
    return None if text is None else parse_iso(text, name)
