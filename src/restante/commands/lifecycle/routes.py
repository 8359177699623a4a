"""Operator routes for commands: create, list, show, explain, cancel, approve and deny."""

from collections.abc import Sequence
from typing import Annotated

import msgspec
from msgspec import Meta

from restante.commands.audit.audit_trail import AuditTrail
from restante.commands.dispatch.claims import ClaimOptions
from restante.commands.errors import NO_NUL
from restante.commands.lifecycle import approval, approval_policy, cancellation, creation_requests, explanation, listing
from restante.commands.lifecycle.approval_policy import ApprovalPolicy, StoredPolicy
from restante.commands.lifecycle.command_types import COMMAND_TYPES, standard_type
from restante.commands.lifecycle.creation import Created, CreationOptions
from restante.commands.lifecycle.creation_requests import CreatedMany, CreationBody, CreationRequest
from restante.commands.lifecycle.explanation import Explanation
from restante.commands.lifecycle.listing import CommandDetail, CommandFilter, CommandView
from restante.commands.response_format import RESPONSE_FORMAT
from restante.commands.sites import site_scope
from restante.core.commands.command_states import State
from restante.core.decoding import INT64_MAX
from restante.database.connection import Connection
from restante.database.database import Database
from restante.database.lists.filtered_list import StateCounts
from restante.database.paging import Page
from restante.identity.grants import Area
from restante.web import idempotency
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
)
from restante.web.request import ApiRequest
from restante.web.response import ApiResponse
from restante.web.routes import Access, Query, ResponseInfo, Route, RouteGroup, RouteOptions

TAG = "edge commands"
PATH = "/api/edge/v1/admin/commands"
POLICY_PATH = "/api/edge/v1/admin/approval-policy"

_EXAMPLE = {"site_id": 1, "miner_id": 1, "command_type": "MINER_RESTART", "params": {}, "priority": 5, "ttl_sec": 600}
_POLICY_EXAMPLE = {"command_types": ["DEVICE_REBOOT"], "miners_from": 20, "window_seconds": 3600}
_ID = {"type": "integer", "minimum": 1, "maximum": INT64_MAX}
_FILTERS = (
    Query("site_id", "only commands of this site", _ID),
    Query("miner_id", "only commands for this miner alone", _ID),
    Query("status", "only commands in this state", {"type": "string", "enum": [state.value for state in State]}),
    Query("command_type", "only commands of this type or alias", {"type": "string", "examples": list(COMMAND_TYPES)}),
    Query("created_by", "only commands created by this actor", {"type": "string"}),
    Query("dedupe_key", "only commands with this key", {"type": "string"}),
    Query("rule_id", "only commands created by this rule", _ID),
    Query("zone_id", "only commands of this zone", _ID),
    Query("device_id", "only commands that this collector has leased", _ID),
    Query("result_code", "only commands that ended with this code", {"type": "string"}),
    Query("since", "created at this time or later, or within this long", TIME),
    Query("until", "created before this time, or longer ago than this", TIME),
)
_LIST_QUERY = (*PAGE_QUERY, *_FILTERS)
_EXPORT_QUERY = (*_FILTERS, FORMAT)


class Decision(msgspec.Struct, forbid_unknown_fields=True):
    reason: Annotated[str, Meta(min_length=1, max_length=cancellation.REASON_CHARACTERS_MAX, pattern=NO_NUL)] | None = (
        None
    )


class AdminCommandRoutes:
    def __init__(
        self, database: Database, trail: AuditTrail, options: CreationOptions, claim_options: ClaimOptions
    ) -> None:
        self._database = database
        self._trail = trail
        self._options = options
        self._claim_options = claim_options

    def routes(self) -> list[Route]:
        group = RouteGroup(TAG, RESPONSE_FORMAT, prefix=PATH, area=Area.commands)

        policy = RouteGroup(TAG, RESPONSE_FORMAT, prefix=POLICY_PATH, area=Area.commands)
        policy_example = RouteOptions(examples=(_POLICY_EXAMPLE,))
        one = "/{command_id}"
        decision = RouteOptions(body_optional=True, errors=(404, 409), examples=({"reason": "not needed any more"},))
        created = RouteOptions(
            status=201,
            errors=(409, 422, 429),
            headers=(idempotency.KEY_HEADER,),
            examples=(_EXAMPLE, {"commands": [_EXAMPLE]}),
            responses=(ResponseInfo(201, Created | CreatedMany, (idempotency.REPLAYED_HEADER,)),),
        )
        return [
            group.post("", self.create, Access.operate, "Create commands", **created),
            group.get("", self.list_page, Access.read, "List commands, newest first", query=_LIST_QUERY),
            group.get("/counts", self.counts, Access.read, "Count commands by state", query=_FILTERS),
            group.get(
                "/export",
                self.export,
                Access.read,
                "Export commands as a file, newest first",
                query=_EXPORT_QUERY,
                responses=(export_info(CommandView),),
            ),
            group.get(one, self.show, Access.read, "Show a command and its history", errors=(404,)),
            group.get(one + "/why", self.why, Access.read, "Explain what a command waits for", errors=(404,)),
            group.post(one + "/cancel", self.cancel, Access.operate, "Cancel a command", **decision),
            group.post(
                one + "/approve", self.approve, Access.approve_in_person, "Approve a command", errors=(404, 409, 410)
            ),
            group.post(one + "/deny", self.deny, Access.approve, "Deny a command", **decision),
            policy.get("", self.show_policy, Access.read, "Show which commands need approval"),
            policy.put("", self.set_policy, Access.administer, "Change which commands need approval", **policy_example),
        ]

    async def create(self, request: ApiRequest, body: CreationBody) -> Created | ApiResponse:
        """One command, or many in `commands`: then all are created or none.

        With an `Idempotency-Key` header, the same request sent again is answered as the first time and makes nothing.
        Under the key of another request it is refused with 422.
        """
        creation_request = CreationRequest(
            body, request.actor, idempotency.key_of(request), request.allowed, request.identities
        )
        result = await self._database.write(
            creation_requests.create_commands, self._trail, self._options, creation_request
        )
        return idempotency.created_response(result)

    async def list_page(self, request: ApiRequest) -> Page[CommandView]:
        """A page may have fewer items than `limit`, or none, although there is a next one: it examines a bounded number
        of commands."""
        check_filters(request, _LIST_QUERY)
        return await self._database.read(
            listing.list_page, _filter_of(request), page_request_of(request), request.allowed
        )

    async def counts(self, request: ApiRequest) -> StateCounts:
        """Exact up to 10,000,000 examined commands; beyond, `is_exact` is false. Counts of
        long lists are kept for a while: `counted_at` is their time."""
        check_filters(request, _FILTERS)
        filters = _filter_of(request)
        return await counted(request, self._database, lambda: listing.counting(filters, request.allowed))

    async def export(self, request: ApiRequest) -> ApiResponse:
        """All commands that match, as CSV with a header row or as a JSON array, sent in parts."""
        check_filters(request, _EXPORT_QUERY)
        filters = _filter_of(request)
        return await export(
            request,
            "commands",
            CommandView,
            lambda page: self._database.read(listing.list_page, filters, page, request.allowed),
        )

    async def show(self, request: ApiRequest) -> CommandDetail:
        return await self._database.read(listing.show, await self._command_id(request))

    async def why(self, request: ApiRequest) -> Explanation:
        """What the command waits for, in one sentence and in fields."""
        return await self._database.write(
            explanation.explain, self._trail, self._claim_options, await self._command_id(request)
        )

    async def cancel(self, request: ApiRequest, body: Decision) -> CommandView:
        """A leased command can be cancelled too. A later ACK is refused like any ACK of an ended command."""
        return await self._database.write(
            _cancelled, self._trail, await self._command_id(request), request.actor, body.reason
        )

    async def approve(self, request: ApiRequest) -> CommandView:
        """Nobody approves a command that they made, or whose rule they made or changed."""
        command_id = await self._command_id(request)
        return await self._database.write(_approved, self._trail, command_id, request.actor, request.identities)

    async def deny(self, request: ApiRequest, body: Decision) -> CommandView:
        return await self._database.write(
            _denied, self._trail, await self._command_id(request), request.actor, body.reason
        )

    async def show_policy(self, _request: ApiRequest) -> StoredPolicy:
        """The policy is the same for all sites."""
        return await self._database.read(approval_policy.show, self._options.approval)

    async def set_policy(self, request: ApiRequest, body: ApprovalPolicy) -> StoredPolicy:
        """It counts at once, on every node, for commands that are created from then on."""
        request.require_all("the policy counts for all sites")
        return await self._database.write(
            approval_policy.change, self._trail, self._options.approval, body, request.actor
        )

    async def _command_id(self, request: ApiRequest) -> str:
        """The command of the path; CommandNotFound if it is outside the caller's grants."""
        command_id = request.path_text("command_id")
        await site_scope.check_command(self._database, request.allowed, command_id)
        return command_id


def _filter_of(request: ApiRequest) -> CommandFilter:
    command_type = request.query_text("command_type")
    return CommandFilter(
        site_id=request.query_int("site_id", 0, 1, INT64_MAX) or None,
        miner_id=request.query_int("miner_id", 0, 1, INT64_MAX) or None,
        status=query_choice(request, "status", State),
        command_type=None if command_type is None else standard_type(command_type),
        created_by=request.query_text("created_by"),
        dedupe_key=request.query_text("dedupe_key"),
        rule_id=request.query_int("rule_id", 0, 1, INT64_MAX) or None,
        zone_id=request.query_int("zone_id", 0, 1, INT64_MAX) or None,
        lease_owner=request.query_int("device_id", 0, 1, INT64_MAX) or None,
        result_code=request.query_text("result_code"),
        since_ms=query_moment(request, "since"),
        until_ms=query_moment(request, "until"),
    )


def _cancelled(conn: Connection, trail: AuditTrail, command_id: str, actor: str, reason: str | None) -> CommandView:
    cancellation.cancel(conn, trail, command_id, actor, reason)
    return listing.get(conn, command_id)


def _approved(
    conn: Connection, trail: AuditTrail, command_id: str, actor: str, identities: Sequence[str]
) -> CommandView:
    approval.approve(conn, trail, command_id, actor, identities)
    return listing.get(conn, command_id)


def _denied(conn: Connection, trail: AuditTrail, command_id: str, actor: str, reason: str | None) -> CommandView:
    approval.deny(conn, trail, command_id, actor, reason)
    return listing.get(conn, command_id)
