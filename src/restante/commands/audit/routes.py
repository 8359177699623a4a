"""Operator routes for the audit trail: list, export, verify, anchor."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import Annotated

import msgspec

from restante.commands.audit import audit_export, audit_listing
from restante.commands.audit.audit_export import ExportHeader
from restante.commands.audit.audit_listing import AuditFilter, AuditView
from restante.commands.audit.audit_trail import AuditTrail, Checkpoint
from restante.commands.audit.audit_verify import ChainVerdict, LiveVerification, anchored_checkpoints
from restante.commands.audit.heads_recorder import HeadsRecorder
from restante.commands.audit.signed_heads import SignedHead
from restante.commands.response_format import RESPONSE_FORMAT
from restante.core import suggestions
from restante.core.decoding import INT64_MAX
from restante.core.errors import BadInput, Conflict
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

SINCE_LINES_MAX = 10_000
_TEXT = {"type": "string"}
_TIME = {"type": "string", "format": "date-time", "examples": ["2026-01-18T10:00:00.250Z"]}
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


class SinceBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    since: Annotated[list[str], msgspec.Meta(max_length=SINCE_LINES_MAX)]


class AdminAuditRoutes:
    def __init__(self, database: Database, trail: AuditTrail, recorder: HeadsRecorder) -> None:
        self._database = database
        self._mac = trail.mac
        self._recorder = recorder

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
            group.post(
                "/verify",
                self.verify_since,
                Access.operate,
                "Prove that the audit trail still has the rows of an earlier export or of anchors",
                examples=({"since": []},),
            ),
            group.post("/anchor", self.anchor, Access.operate, "Record the heads of all chains", errors=(409,)),
        ]

    async def list_page(self, request: ApiRequest) -> Page[AuditView]:
        filters = AuditFilter(
            site_id=_site_id_of(request),
            command_id=request.query_text("command_id"),
            actor=request.query_text("actor"),
            event=_event_of(request),
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
        """`intact`, or the first broken row. The trail must also have the row that this server has stored."""
        return await self._verify(request, ())

    async def verify_since(self, request: ApiRequest, body: SinceBody) -> ChainVerdict:
        """`since`: the lines of a file of anchors, or the first line of an earlier export. The trail must have these
        rows: this detects a database that was set back as a whole."""
        try:
            anchors = anchored_checkpoints([line.encode() for line in body.since], self._mac) if body.since else ()
        except BadInput as error:
            raise BadInput("since", f"the lines of anchors, or of an export; {error.message}") from None
        return await self._verify(request, anchors)

    async def anchor(self, request: ApiRequest) -> SignedHead:
        """The signed head of the main chain. Keep it where the people who are audited cannot change it."""
        request.require_all("this records the chains of all sites")
        head = await self._recorder.record_all()
        if head is None:
            raise Conflict("nothing was recorded in the audit trail yet")
        return head

    async def _verify(self, request: ApiRequest, anchors: Sequence[Checkpoint]) -> ChainVerdict:
        request.require_all("this verifies the chains of all sites")
        remembered = await asyncio.to_thread(self._recorder.remembered.checkpoints)
        verification = LiveVerification(self._mac, [*remembered, *anchors])
        while await self._database.read(verification.step):
            pass
        return verification.verdict


def _site_id_of(request: ApiRequest) -> int | None:
    return request.query_int("site_id", 0, 1, INT64_MAX) or None


def _event_of(request: ApiRequest) -> str | None:
    event = request.query_text("event")
    if event is not None and event not in audit_listing.EVENTS:
        raise BadInput("event", suggestions.one_of(event, audit_listing.EVENTS))
    return event


def _time_of(request: ApiRequest, name: str) -> int | None:
    text = request.query_text(name)
    return None if text is None else parse_iso(text, name)
