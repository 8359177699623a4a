"""The audit trail, for operators: query, export, verify."""

from typing import Any

from restante.commands import audit_export, audit_listing
from restante.commands.audit import AuditTrail
from restante.commands.audit_listing import AuditFilter, AuditView
from restante.commands.audit_verify import LiveVerification, Verdict
from restante.commands.wire import SHAPE, parse_iso
from restante.core.errors import Unprocessable
from restante.database.database import Database
from restante.web.answer import NO_STORE, Answer
from restante.web.ask import INT64_MAX, Ask
from restante.web.paging import PAGE_QUERY, Page, window_of
from restante.web.routes import Access, Query, Route

TAG = "edge audit"
PATH = "/api/edge/v1/admin/audit"
# A longer trail is exported by the command line, which writes it piece by piece.
EXPORT_ROWS_MAX = 100_000

_TEXT = {"type": "string"}
_MOMENT = {"type": "string", "format": "date-time"}
_SITE = Query("site_id", "only of this site", {"type": "integer", "minimum": 1})
_LIST_QUERY = (
    *PAGE_QUERY,
    _SITE,
    Query("command_id", "only what happened to this command", _TEXT),
    Query("actor", "only what this actor did", _TEXT),
    Query("event", "only events of this name", _TEXT),
    Query("since", "only from this moment on", _MOMENT),
    Query("until", "only before this moment", _MOMENT),
)


class AdminAuditRoutes:
    def __init__(self, database: Database, trail: AuditTrail, *, export_rows_max: int = EXPORT_ROWS_MAX) -> None:
        self._database = database
        self._mac = trail.mac
        self._export_rows_max = export_rows_max

    def routes(self) -> list[Route]:
        def route(path: str, handler: Any, summary: str, **more: Any) -> Route:
            return Route("GET", PATH + path, handler, Access.read, summary, shape=SHAPE, tag=TAG, **more)

        return [
            route("", self.list_page, "Look into the audit trail, newest first", query=_LIST_QUERY),
            route("/export", self.export, "The audit trail as JSON lines", query=(_SITE,), refusals=(422,)),
            route("/verify", self.verify, "Prove the audit trail unbroken"),
        ]

    async def list_page(self, ask: Ask) -> Page[AuditView]:
        wanted = AuditFilter(
            site_id=_site_asked(ask),
            command_id=ask.query_text("command_id"),
            actor=ask.query_text("actor"),
            event=ask.query_text("event"),
            since_ms=_moment_asked(ask, "since"),
            until_ms=_moment_asked(ask, "until"),
        )
        return await self._database.read(audit_listing.list_page, wanted, window_of(ask))

    async def export(self, ask: Ask) -> Answer:
        """A file that `restante audit verify FILE` proves unbroken without the database."""
        header = await self._database.read(audit_export.header, self._mac, _site_asked(ask))
        if sum(checkpoint.n for checkpoint in header.checkpoints) > self._export_rows_max:
            raise Unprocessable(
                f"more than {self._export_rows_max} rows: name one site, or use `restante audit export`"
            )
        lines = [audit_export.as_line(header)]
        for chain, after, until in audit_export.batches(header):
            rows = await self._database.read(audit_export.rows_between, chain, after, until)
            lines.extend(map(audit_export.as_line, rows))
        attachment = (b"content-disposition", b'attachment; filename="audit.jsonl"')
        return Answer(200, ((b"content-type", b"application/jsonl"), NO_STORE, attachment), b"".join(lines))

    async def verify(self, _ask: Ask) -> Verdict:
        """`intact`, or the first row that is not what was written."""
        verification = LiveVerification(self._mac)
        while await self._database.read(verification.step):
            pass
        return verification.verdict


def _site_asked(ask: Ask) -> int | None:
    return ask.query_int("site_id", 0, 1, INT64_MAX) or None


def _moment_asked(ask: Ask, name: str) -> int | None:
    text = ask.query_text(name)
    return None if text is None else parse_iso(text, name)
