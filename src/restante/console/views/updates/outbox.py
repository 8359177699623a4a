"""The outbox: signals on their way to devices, by state, and what failed."""

from collections.abc import Mapping
from urllib.parse import urlencode

from restante.console.live import UPDATES
from restante.console.navigation import ROOT
from restante.console.pages import Attention, ConsoleRequest, Hit, Needs, Pages, PageSet
from restante.console.views import saved_filters
from restante.core.decoding import DIGITS, INT64_MAX
from restante.core.errors import BadInput, Conflict, NotFound
from restante.database.errors import DatabaseError
from restante.database.lists.long_counts import OneRead
from restante.database.paging import page_of_items
from restante.delivery.outbox import outbox
from restante.delivery.outbox.outbox import OWN_SOURCE, STATUSES, OutboxRow
from restante.delivery.outbox.outbox_sources import OutboxSource, find_source
from restante.identity.grants import Area, Role
from restante.updates.devices.routes_fleet import OutboxView
from restante.web.response import ApiResponse
from restante.web.routes import Route

PATH = "/outbox"
EXPORT_PATH = "/apiv1/outbox/export"
STUCK_MS = 60_000
_READ, _OPERATE = Needs(Area.updates), Needs(Area.updates, Role.operator)


class OutboxPages(PageSet):
    needs = _READ

    def __init__(self, sources: Mapping[str, OutboxSource]) -> None:
        self._sources = sources

    def routes(self, pages: Pages) -> list[Route]:
        return [
            pages.get(PATH, self.show_list, _READ),
            pages.get(PATH + "/{row_id}", self.show, _READ),
            pages.post(PATH + "/retry", self.retry_all, _OPERATE),
            pages.post(PATH + "/{row_id}/retry", self.retry, _OPERATE),
        ]

    async def show_list(self, request: ConsoleRequest) -> ApiResponse:
        source, window = self._source(request), request.page()
        status = request.query_text("status") or None
        if status is not None and status not in STATUSES:
            raise BadInput("status", f"one of {', '.join(STATUSES)}")
        device_id = request.query_int("device", 0, 1, INT64_MAX) if request.query_text("device") else None
        users = request.allowed.as_json()
        found = await source.database.read(
            outbox.list_rows, status, device_id, window.limit + 1, window.after, source.name, users
        )
        saved = await saved_filters.shown_filters(request, saved_filters.OUTBOX)
        counting = OneRead(lambda conn: outbox.counts(conn, users))
        counts = await request.count(UPDATES, PATH, lambda: counting, source.database)
        return request.render(
            "outbox/list.html",
            section="outbox",
            title="Outbox",
            topics=(UPDATES,),
            page=page_of_items(found, window, lambda row: row.id),
            counts=counts or {"pending": None, "failed": None},
            sources=list(self._open_sources(request)),
            source=source.name,
            status=status,
            device_id=device_id,
            statuses=STATUSES,
            address=request.page_link,
            saved=saved,
            row_path=_row_path,
            export_path=f"{EXPORT_PATH}?{urlencode(_api_filter(source.name, status, device_id))}",
            may_retry=request.may(Area.updates, Role.operator),
        )

    async def show(self, request: ConsoleRequest) -> ApiResponse:
        row = await self._row(request)
        return request.render(
            "outbox/row.html",
            section="outbox",
            title=f"Outbox row {row.id}",
            topics=(UPDATES,),
            row=row,
            steps=_steps(row),
            may_retry=row.status == "FAILED" and request.may(Area.updates, Role.operator),
            retry_path=f"{ROOT}{PATH}/{row.id}/retry?{urlencode({'source': row.source})}",
        )

    async def retry(self, request: ConsoleRequest) -> ApiResponse:
        row, source = await self._row(request), self._source(request)
        if not await self._retry(request, source, [row.id]):
            raise Conflict(f"the row is {row.status}: only a failed one can be retried")
        return request.redirect(_row_path(row), done="row-retried")

    async def retry_all(self, request: ConsoleRequest) -> ApiResponse:
        source = self._source(request)
        await self._retry(request, source, None)
        query = {} if source.name == OWN_SOURCE else {"source": source.name}
        return request.redirect(f"{ROOT}{PATH}?{urlencode(query)}".rstrip("?"), done="rows-retried")

    async def find(self, request: ConsoleRequest, text: str) -> list[Hit]:
        if not DIGITS.fullmatch(text) or len(text) > 18:
            return []
        row = await request.read(outbox.get_row, int(text), OWN_SOURCE, request.allowed.as_json())
        return (
            [] if row is None else [Hit("Outbox row", f"{row.id}", _row_path(row), f"{row.event_kind}, {row.status}")]
        )

    async def attention(self, request: ConsoleRequest) -> list[Attention]:
        found = []
        for source in self._open_sources(request).values():
            view, path = await self._view(source, request.allowed.as_json()), f"{ROOT}{PATH}?source={source.name}"
            now_ms = request.parts.rendering.now_ms()
            if not view.reachable:
                found.append(
                    Attention("away", f"Outbox {source.name} cannot be reached", path, 1, hint=view.problem or "")
                )
            if view.failed:
                found.append(Attention("failed", "Outbox rows failed", f"{path}&status=FAILED", view.failed))
            if view.pending and (view.oldest_pending_ms or 0) > STUCK_MS:
                since = now_ms - (view.oldest_pending_ms or 0)
                found.append(Attention("stuck", "Outbox rows wait", f"{path}&status=PENDING", view.pending, since))
        return found

    async def _row(self, request: ConsoleRequest) -> OutboxRow:
        source = self._source(request)
        row = await source.database.read(
            outbox.get_row, request.path_id("row_id"), source.name, request.allowed.as_json()
        )
        if row is None:
            raise NotFound("There is no such outbox row.")
        return row

    async def _retry(self, request: ConsoleRequest, source: OutboxSource, row_ids: list[int] | None) -> int:
        """Reset failed rows, and record it. Rows of an external database are reset there, and recorded here."""
        users = request.allowed.as_json()
        detail = {"source": source.name, "row_ids": row_ids}
        if source.name == OWN_SOURCE:
            reset = await request.act("outbox.retried", detail, outbox.retry, row_ids, users)
        else:
            reset = await source.database.write(outbox.retry, row_ids, users)
            await request.act("outbox.retried", detail, lambda _conn: None)
        source.wake()
        return reset

    def _source(self, request: ConsoleRequest) -> OutboxSource:
        return find_source(self._open_sources(request), request.query_text("source") or OWN_SOURCE)

    def _open_sources(self, request: ConsoleRequest) -> Mapping[str, OutboxSource]:
        """External databases do not know users, so only who may see every user's rows sees theirs."""
        return self._sources if request.allowed.are_all else {OWN_SOURCE: self._sources[OWN_SOURCE]}

    async def _view(self, source: OutboxSource, users: str | None) -> OutboxView:
        try:
            counts = await source.database.read(outbox.counts, users)
        except DatabaseError as error:
            return OutboxView(source.name, False, problem=str(error))
        return OutboxView(source.name, True, counts["pending"], counts["failed"], counts["oldest_pending_ms"])


def _api_filter(source: str, status: str | None, device_id: int | None) -> dict[str, str | int]:
    """The filter as the parameters of the export."""
    given = {"source": None if source == OWN_SOURCE else source, "status": status, "device_id": device_id}
    return {name: value for name, value in given.items() if value is not None}


def _row_path(row: OutboxRow) -> str:
    query = "" if row.source == OWN_SOURCE else f"?{urlencode({'source': row.source})}"
    return f"{ROOT}{PATH}/{row.id}{query}"


def _steps(row: OutboxRow) -> list[tuple[str, str, str | None, str]]:
    """The life of the row: kind of mark, what happened, when, and more about it."""
    steps: list[tuple[str, str, str | None, str]] = [
        ("ok", "Committed with the change it is about", row.created_at, "")
    ]
    if row.claimed_at is not None:
        steps.append(("busy", f"Leased by {row.claimed_by}", row.claimed_at, ""))
    if row.status == "DELIVERED":
        steps.append(("ok", "Published to the device's log", row.delivered_at, ""))
    elif row.status == "FAILED":
        steps.append(("bad", f"Failed after {row.attempts} attempts", None, row.failure_reason or ""))
    else:
        if row.failure_reason:
            steps.append(("warn", f"Attempt {row.attempts} failed", None, row.failure_reason))
        steps.append(("wait", "Next attempt", row.next_attempt_at, ""))
    return steps
