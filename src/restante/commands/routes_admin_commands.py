"""Commands, for operators: make, list, look at, ask why, cancel, approve and deny."""

from typing import Annotated, Any

import msgspec
from msgspec import Meta

from restante.commands import approval, cancelling, creation_requests, listing, why
from restante.commands.audit import AuditTrail
from restante.commands.command_types import COMMAND_TYPES, standard_type
from restante.commands.creation import Created, CreationOptions
from restante.commands.creation_requests import CreationBody, CreationRequest
from restante.commands.listing import CommandDetail, CommandFilter, CommandView
from restante.commands.why import Why
from restante.commands.wire import NO_NUL, SHAPE
from restante.core.command_states import State
from restante.core.errors import BadInput
from restante.database.connection import Connection
from restante.database.database import Database
from restante.web import idempotency
from restante.web.answer import Answer
from restante.web.ask import INT64_MAX, Ask
from restante.web.paging import PAGE_QUERY, Page, window_of
from restante.web.routes import Access, Query, Route

TAG = "edge commands"
PATH = "/api/edge/v1/admin/commands"

_ID = {"type": "integer", "minimum": 1}
_LIST_QUERY = (
    *PAGE_QUERY,
    Query("site_id", "only commands of this site", _ID),
    Query("miner_id", "only commands for this miner alone", _ID),
    Query("status", "only commands in this state", {"type": "string", "enum": [state.value for state in State]}),
    Query("command_type", "only commands of this type or alias", {"type": "string", "examples": list(COMMAND_TYPES)}),
    Query("created_by", "only commands made by this actor", {"type": "string"}),
    Query("dedupe_key", "only commands with this key", {"type": "string"}),
    Query("rule_id", "only commands made by this rule", _ID),
)


class Decision(msgspec.Struct, forbid_unknown_fields=True):
    reason: Annotated[str, Meta(min_length=1, max_length=cancelling.REASON_CHARACTERS_MAX, pattern=NO_NUL)] | None = (
        None
    )


class AdminCommandRoutes:
    def __init__(self, database: Database, trail: AuditTrail, options: CreationOptions) -> None:
        self._database = database
        self._trail = trail
        self._options = options

    def routes(self) -> list[Route]:
        def route(method: str, path: str, handler: Any, access: Access, summary: str, **more: Any) -> Route:
            return Route(method, PATH + path, handler, access, summary, shape=SHAPE, tag=TAG, **more)

        one = "/{command_id}"
        decided = {"body_optional": True, "refusals": (404, 409)}
        return [
            route(
                "POST", "", self.create, Access.operate, "Make a command, or many", status=201, refusals=(409, 422, 429)
            ),
            route("GET", "", self.list_page, Access.read, "List commands, newest first", query=_LIST_QUERY),
            route("GET", one, self.show, Access.read, "Show a command and its history", refusals=(404,)),
            route("GET", one + "/why", self.why, Access.read, "Why is it not there yet?", refusals=(404,)),
            route("POST", one + "/cancel", self.cancel, Access.operate, "Cancel a command", **decided),
            route(
                "POST", one + "/approve", self.approve, Access.approve, "Approve a command", refusals=(404, 409, 410)
            ),
            route("POST", one + "/deny", self.deny, Access.approve, "Deny a command", **decided),
        ]

    async def create(self, ask: Ask, body: CreationBody) -> Created | Answer:
        """One command, or many under `commands`: then all are made or none.

        With an `Idempotency-Key` header, the same request sent again is answered as the first time and makes nothing.
        Under the key of another request it is refused with 422.
        """
        request = CreationRequest(body, ask.actor, idempotency.key_of(ask))
        made = await self._database.write(creation_requests.carry_out, self._trail, self._options, request)
        return made.as_answer()

    async def list_page(self, ask: Ask) -> Page[CommandView]:
        return await self._database.read(listing.list_page, _filter_of(ask), window_of(ask))

    async def show(self, ask: Ask) -> CommandDetail:
        return await self._database.read(listing.show, ask.path_text("command_id"))

    async def why(self, ask: Ask) -> Why:
        """What the command is waiting for: in one sentence, and in fields."""
        rules = self._options.rate_rules
        return await self._database.write(why.explain, self._trail, rules, ask.path_text("command_id"))

    async def cancel(self, ask: Ask, body: Decision) -> CommandView:
        """A command that a collector holds can be cancelled too; its ACK is then refused as of any ended command."""
        return await self._database.write(_cancelled, self._trail, ask.path_text("command_id"), ask.actor, body.reason)

    async def approve(self, ask: Ask) -> CommandView:
        """Whoever made a command cannot approve it."""
        return await self._database.write(_approved, self._trail, ask.path_text("command_id"), ask.actor)

    async def deny(self, ask: Ask, body: Decision) -> CommandView:
        return await self._database.write(_denied, self._trail, ask.path_text("command_id"), ask.actor, body.reason)


def _filter_of(ask: Ask) -> CommandFilter:
    status = ask.query_text("status")
    if status is not None and status not in set(State):
        raise BadInput("status", f"one of {', '.join(State)}")
    command_type = ask.query_text("command_type")
    return CommandFilter(
        site_id=ask.query_int("site_id", 0, 1, INT64_MAX) or None,
        miner_id=ask.query_int("miner_id", 0, 1, INT64_MAX) or None,
        status=status,
        command_type=None if command_type is None else standard_type(command_type),
        created_by=ask.query_text("created_by"),
        dedupe_key=ask.query_text("dedupe_key"),
        rule_id=ask.query_int("rule_id", 0, 1, INT64_MAX) or None,
    )


def _cancelled(conn: Connection, trail: AuditTrail, command_id: str, actor: str, reason: str | None) -> CommandView:
    cancelling.cancel(conn, trail, command_id, actor, reason)
    return listing.get(conn, command_id)


def _approved(conn: Connection, trail: AuditTrail, command_id: str, actor: str) -> CommandView:
    approval.approve(conn, trail, command_id, actor)
    return listing.get(conn, command_id)


def _denied(conn: Connection, trail: AuditTrail, command_id: str, actor: str, reason: str | None) -> CommandView:
    approval.deny(conn, trail, command_id, actor, reason)
    return listing.get(conn, command_id)
