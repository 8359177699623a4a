"""Operator routes for the audit trail: list, export, verify."""

import asyncio
from collections.abc import AsyncIterator

from restante.commands.audit import audit_export, audit_listing
from restante.commands.audit.audit_export import ExportHeader
from restante.commands.audit.audit_listing import AuditFilter, AuditView
from restante.commands.audit.audit_trail import AuditTrail
from restante.commands.audit.audit_verify import ChainVerdict, LiveVerification
from restante.commands.audit.signed_heads import RememberedHead
from restante.commands.response_format import RESPONSE_FORMAT
from restante.core.decoding import INT64_MAX
from restante.core.iso_time import parse_iso
from restante.database.database import Database
from restante.database.paging import Page
from restante.identity.grants import Area
from restante.web.paging import PAGE_QUERY, page_request_of
from restante.web.request import ApiRequest
from restante.web.response import NO_STORE, ApiResponse
from restante.web.routes import Access, Header, Query, ResponseInfo, Route, RouteGroup

TAG = "edge audit"
PATH = "/api/edge/v1/admin/audit"

_TEXT = {"type": "string"}
_TIME = {"type": "string", "format": "date-time"}
_SITE = Query("site_id", "only of this site", {"type": "integer", "minimum": 1, "maximum": INT64_MAX})
_LIST_QUERY = (
    *PAGE_QUERY,
    _SITE,
    Query("command_id", "only what happened to this command", _TEXT),
    Query("actor", "only what this actor did", _TEXT),
    Query("event", "only events of this name", _TEXT),
    Query("since", "only from this time on", _TIME),
    Query("until", "only before this time", _TIME),
)
_FILE_NAME = Header("Content-Disposition", "The name of the file.", required=True)


class AdminAuditRoutes:
    def __init__(self, database: Database, trail: AuditTrail, remembered: RememberedHead | None = None) -> None:
        self._database = database
        self._mac = trail.mac
        self._remembered = remembered

    def routes(self) -> list[Route]:
        group = RouteGroup(TAG, RESPONSE_FORMAT, prefix=PATH, area=Area.commands)

        return [
            group.get("", self.list_page, Access.read, "Look into the audit trail, newest first", query=_LIST_QUERY),
            group.get(
                "/export",
                self.export,
                Access.read,
                "The audit trail as JSON lines",
                query=(_SITE,),
                responses=(ResponseInfo(200, str, (_FILE_NAME,), "application/jsonl"),),
            ),
            group.get("/verify", self.verify, Access.read, "Prove the audit trail unbroken"),
        ]

    async def list_page(self, request: ApiRequest) -> Page[AuditView]:
        filters = AuditFilter(
            site_id=_site_id_of(request),
            command_id=request.query_text("command_id"),
            actor=request.query_text("actor"),
            event=request.query_text("event"),
            since_ms=_time_of(request, "since"),
            until_ms=_time_of(request, "until"),
        )
        return await self._database.read(audit_listing.list_page, filters, page_request_of(request), request.allowed)

    async def export(self, request: ApiRequest) -> ApiResponse:
        """A file that `restante audit verify FILE` verifies without the database. It is sent in parts, however long the
        trail is."""
        header = await self._database.read(audit_export.build_header, self._mac, _site_id_of(request), request.allowed)
        attachment = (b"content-disposition", b'attachment; filename="audit.jsonl"')
        headers = ((b"content-type", b"application/jsonl"), NO_STORE, attachment)
        return ApiResponse(200, headers, stream=self._lines(header))

    async def _lines(self, header: ExportHeader) -> AsyncIterator[bytes]:
        yield audit_export.encode_line(header)
        for chain, after, until in audit_export.row_ranges(header):
            rows = await self._database.read(audit_export.read_rows, chain, after, until)
            yield b"".join(map(audit_export.encode_line, rows))

    async def verify(self, request: ApiRequest) -> ChainVerdict:
        """`intact`, or the first broken row. The trail must also have the row that this server remembers."""
        request.require_all("this verifies the chains of all sites")
        remembered = () if self._remembered is None else await asyncio.to_thread(self._remembered.checkpoints)
        verification = LiveVerification(self._mac, remembered)
        while await self._database.read(verification.step):
            pass
        return verification.verdict


def _site_id_of(request: ApiRequest) -> int | None:
    return request.query_int("site_id", 0, 1, INT64_MAX) or None


def _time_of(request: ApiRequest, name: str) -> int | None:
    text = request.query_text(name)
    return None if text is None else parse_iso(text, name)
