"""Routes for collectors: add, list, rotate, revoke. Tokens and secrets are shown once; the audit trail records it."""

from collections.abc import Sequence
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from restante.commands.audit.audit_trail import AuditEntry, AuditTrail
from restante.commands.body_ids import BodyWithIds, Id
from restante.commands.dispatch.signing import verify_command
from restante.commands.response_format import RESPONSE_FORMAT
from restante.commands.sites import collectors, site_scope, sites
from restante.commands.sites.collectors import Collector, CollectorFilter, NewCollector, SecretBox
from restante.core.decoding import INT64_MAX
from restante.core.iso_time import Timestamp, iso_precise
from restante.database.connection import Connection
from restante.database.database import Database
from restante.database.lists.filtered_list import StateCounts
from restante.database.paging import Page, PageRequest
from restante.delivery.presence import Presence
from restante.identity import tags
from restante.identity.grants import AllowedIds, Area
from restante.web.paging import (
    FORMAT,
    PAGE_QUERY,
    TIME,
    check_filters,
    counted,
    export,
    export_info,
    page_request_of,
    query_choice,
    query_moment,
    query_prefix,
)
from restante.web.request import ApiRequest
from restante.web.response import ApiResponse
from restante.web.routes import Access, Query, Route, RouteGroup, RouteOptions

TAG = "edge collectors"
PATH = "/api/edge/v1/admin/devices"
OVERLAP_MAX_SECONDS = 30 * 86_400
VERIFIED_COMMANDS_MAX = 1000

Overlap = Annotated[int, Meta(ge=0, le=OVERLAP_MAX_SECONDS)]
_ID = {"type": "integer", "minimum": 1, "maximum": INT64_MAX}
_FILTERS = (
    Query("site_id", "only items of this site", _ID),
    Query("zone_id", "only collectors of this zone alone", _ID),
    Query("name", "only collectors whose name begins with this", {"type": "string", "minLength": 1}),
    Query("status", "only collectors with this status", {"type": "string", "enum": list(collectors.STATUSES)}),
    Query("seen_before", "only collectors that have not polled since this time, or for this long", TIME),
    Query("seen_after", "only collectors that have polled since this time, or within this long", TIME),
)
_LIST_QUERY = (*PAGE_QUERY, *_FILTERS)
_EXPORT_QUERY = (*_FILTERS, FORMAT)


class CollectorBody(BodyWithIds, frozen=True, forbid_unknown_fields=True):
    """Without a zone the collector serves the whole site."""

    id_fields = ("site_id", "zone_id")

    site_id: Id
    device_name: Annotated[str, Meta(min_length=1, max_length=sites.NAME_CHARACTERS_MAX)]
    zone_id: Id | None = None


class RotationBody(msgspec.Struct, forbid_unknown_fields=True):
    """`what`: the credentials to replace. `overlap_sec`: how long the old secret still verifies ACKs; an old token ends
    at once."""

    what: Literal["both", "token", "hmac_secret"] = "both"
    overlap_sec: Overlap | None = None


class CollectorView(msgspec.Struct, frozen=True):
    id: int
    site_id: int
    zone_id: int | None
    device_name: str
    status: Literal["active", "revoked"]
    created_at: Timestamp
    last_seen_at: Timestamp | None
    revoked_at: Timestamp | None
    old_secret_until: Timestamp | None
    tags: list[str] = msgspec.field(default_factory=list)


class NewCollectorView(msgspec.Struct, frozen=True):
    """`token` and `hmac_secret` are shown only in this response."""

    id: int
    token: str
    hmac_secret: str
    site_id: int
    zone_id: int | None
    device_name: str


class RotationResult(msgspec.Struct, frozen=True):
    """The new credentials, shown only in this response; None if not replaced."""

    id: int
    token: str | None
    hmac_secret: str | None
    old_secret_until: Timestamp | None


class SignedCommands(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Commands as a collector received them."""

    commands: Annotated[list[dict[str, Any]], msgspec.Meta(max_length=VERIFIED_COMMANDS_MAX)]


class CommandSignature(msgspec.Struct, frozen=True):
    command_id: str | None
    valid: bool
    reason: str


class SignatureVerdicts(msgspec.Struct, frozen=True):
    items: list[CommandSignature]


class AdminCollectorRoutes:
    def __init__(
        self,
        database: Database,
        trail: AuditTrail,
        box: SecretBox,
        presence: Presence,
        *,
        secret_overlap_seconds: int,
    ) -> None:
        self._database = database
        self._trail = trail
        self._box = box
        self._presence = presence
        self._secret_overlap_seconds = secret_overlap_seconds

    def routes(self) -> list[Route]:
        group = RouteGroup(TAG, RESPONSE_FORMAT, prefix=PATH, area=Area.commands)

        one = "/{device_id}"
        rotation = RouteOptions(
            body_optional=True, errors=(409,), examples=({"what": "hmac_secret", "overlap_sec": 3600},)
        )
        return [
            group.post(
                "",
                self.add,
                Access.administer,
                "Add a collector",
                status=201,
                errors=(409,),
                examples=({"site_id": 1, "device_name": "collector-1"},),
            ),
            group.get("", self.list_page, Access.read, "List collectors", query=_LIST_QUERY),
            group.get("/counts", self.counts, Access.read, "Count collectors by status", query=_FILTERS),
            group.get(
                "/export",
                self.export,
                Access.read,
                "Export collectors as a file",
                query=_EXPORT_QUERY,
                responses=(export_info(CollectorView),),
            ),
            group.get(one, self.get, Access.read, "Show a collector"),
            group.post(one + "/rotate", self.rotate, Access.administer, "Replace token and secret", **rotation),
            group.post(one + "/revoke", self.revoke, Access.administer, "Revoke a collector"),
            group.post(
                one + "/verify",
                self.verify,
                Access.administer,
                "Check the signatures of commands with the collector's secret",
                examples=({"commands": [{"command_id": "cmd_1", "signature": "00"}]},),
            ),
            group.delete(one, self.revoke, Access.administer, "Revoke a collector"),
        ]

    async def add(self, request: ApiRequest, body: CollectorBody) -> NewCollectorView:
        site_scope.check_body(request.allowed, body.site_id)
        new = await self._database.write(add, self._trail, self._box, body, request.actor)
        return new_view(new, body)

    async def list_page(self, request: ApiRequest) -> Page[CollectorView]:
        check_filters(request, _LIST_QUERY)
        return await self._page(_filter_of(request), page_request_of(request), request.allowed)

    async def counts(self, request: ApiRequest) -> StateCounts:
        """Exact up to 10,000,000 examined collectors; beyond, `is_exact` is false. Counts of
        long lists are kept for a while: `counted_at` is their time."""
        check_filters(request, _FILTERS)
        filters = _filter_of(request)
        return await counted(request, self._database, lambda: collectors.counting(filters, request.allowed))

    async def export(self, request: ApiRequest) -> ApiResponse:
        """All collectors that match, as CSV with a header row or as a JSON array, sent in parts."""
        check_filters(request, _EXPORT_QUERY)
        filters = _filter_of(request)
        return await export(
            request, "collectors", CollectorView, lambda page: self._page(filters, page, request.allowed)
        )

    async def _page(self, filters: CollectorFilter, page: PageRequest, sites: AllowedIds) -> Page[CollectorView]:
        found, tagged = await self._database.read(_list, filters, page, sites)
        return Page([self._current_view(each, tagged[each.id]) for each in found.items], found.next)

    async def get(self, request: ApiRequest) -> CollectorView:
        await site_scope.check_collector(self._database, request.allowed, request.path_id("device_id"))
        collector, own_tags = await self._database.read(_find, request.path_id("device_id"))
        return self._current_view(collector, own_tags)

    def _current_view(self, collector: Collector, own_tags: list[str]) -> CollectorView:
        """The collector with its tags and with the last poll that this server has in memory."""
        seen_ms = self._presence.newest_ms(collector.id, collector.last_seen_at)
        return msgspec.structs.replace(view(collector), last_seen_at=iso_precise(seen_ms), tags=own_tags)

    async def rotate(self, request: ApiRequest, body: RotationBody) -> RotationResult:
        """An old token ends at once; an old secret still verifies ACKs during the overlap."""
        await site_scope.check_collector(self._database, request.allowed, request.path_id("device_id"))
        overlap = self._secret_overlap_seconds if body.overlap_sec is None else body.overlap_sec
        rotation = RotationBody(body.what, overlap)
        return await self._database.write(
            rotate, self._trail, self._box, request.path_id("device_id"), rotation, request.actor
        )

    async def verify(self, request: ApiRequest, body: SignedCommands) -> SignatureVerdicts:
        """The audit trail records that the secret was read. The secret itself is not in the response."""
        device_id = request.path_id("device_id")
        await site_scope.check_collector(self._database, request.allowed, device_id)
        secrets = await self._database.write(_read_secrets, self._trail, self._box, device_id, request.actor)
        return SignatureVerdicts([signature_verdict(command, secrets) for command in body.commands])

    async def revoke(self, request: ApiRequest) -> CollectorView:
        """Revoking is final. Other collectors get the commands that it holds when their leases expire."""
        await site_scope.check_collector(self._database, request.allowed, request.path_id("device_id"))
        return await self._database.write(revoke, self._trail, request.path_id("device_id"), request.actor)


def _list(
    conn: Connection, filters: CollectorFilter, page: PageRequest, sites: AllowedIds
) -> tuple[Page[Collector], dict[int, list[str]]]:
    found = collectors.list_page(conn, filters, page, sites)
    return found, tags.tags_of_all(conn, "collector", [collector.id for collector in found.items])


def _find(conn: Connection, device_id: int) -> tuple[Collector, list[str]]:
    return collectors.find(conn, device_id), tags.tags_of(conn, "collector", device_id)


def _filter_of(request: ApiRequest) -> CollectorFilter:
    return CollectorFilter(
        site_id=request.query_int("site_id", 0, 1, INT64_MAX) or None,
        zone_id=request.query_int("zone_id", 0, 1, INT64_MAX) or None,
        name=query_prefix(request, "name"),
        status=query_choice(request, "status", collectors.STATUSES),
        seen_before_ms=query_moment(request, "seen_before"),
        seen_after_ms=query_moment(request, "seen_after"),
    )


def add(conn: Connection, trail: AuditTrail, box: SecretBox, body: CollectorBody, actor: str) -> NewCollector:
    sites.require_site(conn, body.site_id)
    if body.zone_id is not None:
        sites.require_zone(conn, body.site_id, body.zone_id)
    name = sites.checked_name(body.device_name, "device_name")
    return collectors.create(conn, trail, box, body.site_id, body.zone_id, name, actor)


def rotate(
    conn: Connection, trail: AuditTrail, box: SecretBox, device_id: int, rotation: RotationBody, actor: str
) -> RotationResult:
    token = secret = None
    if rotation.what != "hmac_secret":
        token = collectors.rotate_token(conn, trail, device_id, actor)
    if rotation.what != "token":
        secret = collectors.rotate_secret(conn, trail, box, device_id, rotation.overlap_sec or 0, actor)
    return RotationResult(device_id, token, secret, iso_precise(collectors.find(conn, device_id).old_secret_until))


def revoke(conn: Connection, trail: AuditTrail, device_id: int, actor: str) -> CollectorView:
    collectors.revoke(conn, trail, device_id, actor)
    return view(collectors.find(conn, device_id))


def new_view(new: NewCollector, body: CollectorBody) -> NewCollectorView:
    return NewCollectorView(new.id, new.token, new.hmac_secret, body.site_id, body.zone_id, body.device_name)


def view(collector: Collector) -> CollectorView:
    return CollectorView(
        id=collector.id,
        site_id=collector.site_id,
        zone_id=collector.zone_id,
        device_name=collector.device_name,
        status="active" if collector.revoked_at is None else "revoked",
        created_at=iso_precise(collector.created_at),
        last_seen_at=iso_precise(collector.last_seen_at),
        revoked_at=iso_precise(collector.revoked_at),
        old_secret_until=iso_precise(collector.old_secret_until),
    )


def signature_verdict(command: dict[str, Any], secrets: Sequence[str]) -> CommandSignature:
    """Whether the signature of the command is that of one of the secrets, and why not."""
    verdicts = [verify_command(command, secret) for secret in secrets]
    best = next((verdict for verdict in verdicts if verdict.is_valid), verdicts[0])
    command_id = command.get("command_id")
    return CommandSignature(command_id if isinstance(command_id, str) else None, best.is_valid, best.reason)


def _read_secrets(conn: Connection, trail: AuditTrail, box: SecretBox, device_id: int, actor: str) -> list[str]:
    """The collector's valid secrets. Reading them is recorded in the audit trail."""
    site_id = collectors.find(conn, device_id).site_id
    detail = {"device_id": device_id}
    trail.record(conn, AuditEntry(site_id, actor, "collector.secret_read", None, None, None, detail))
    return box.valid_secrets(collectors.sealed_secrets(conn, device_id), conn.now_ms)
