"""Commands: by state, one with every attempt and its history, a form for each type, and the inbox of approvals."""

from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from typing import Any
from urllib.parse import urlencode

import msgspec

from restante.commands.audit.audit_trail import AuditTrail
from restante.commands.dispatch.claims import ClaimOptions
from restante.commands.lifecycle import approval, cancellation, creation_requests, explanation, listing
from restante.commands.lifecycle.command_types import COMMAND_TYPES
from restante.commands.lifecycle.creation import CreationOptions
from restante.commands.lifecycle.creation_requests import CreationBody, CreationRequest
from restante.commands.lifecycle.listing import CommandFilter, CommandView
from restante.commands.sites import miners, place_names, sites
from restante.commands.sites.miners import MinerFilter
from restante.commands.sites.place_names import PlaceNames
from restante.console.forms.forms import Form
from restante.console.forms.schema_forms import FormField, fields_of, value_of
from restante.console.live import COMMANDS
from restante.console.navigation import ROOT
from restante.console.pages import Attention, ConsoleRequest, Hit, Needs, Pages, PageSet
from restante.console.views import saved_filters
from restante.console.views.sites.command_history import attempts_of, snapshots_of, steps_of
from restante.core.commands.command_states import State
from restante.core.decoding import INT64_MAX, decode_json
from restante.core.errors import BadInput, NotFound, RestanteError
from restante.core.iso_time import parse_iso
from restante.database.connection import Connection
from restante.database.paging import PageRequest
from restante.identity.grants import ALL_IDS, Area, Role
from restante.web.response import ApiResponse
from restante.web.routes import Route

PATH = "/commands"
APPROVALS_PATH = "/approvals"
EXPORT_PATH = "/api/edge/v1/admin/commands/export"
READ, OPERATE = Needs(Area.commands), Needs(Area.commands, Role.operator)
APPROVE = Needs(Area.commands, Role.approver)
WAITING_APPROVAL = State.pending_approval.value
ATTENTION_ROWS = 100
# A page examines a bounded number of commands, and may be empty although there are more.
ATTENTION_PAGES = 5
CHOICES_MAX = 500
_PARAM_PREFIX = "param_"
_COMMAND_ID_CHARACTERS_MAX = 100


class CommandPages(PageSet):
    needs = READ

    def __init__(self, trail: AuditTrail, creation: CreationOptions, claims: ClaimOptions) -> None:
        self._trail = trail
        self._creation = creation
        self._claims = claims

    def routes(self, pages: Pages) -> list[Route]:
        one = PATH + "/{command_id}"
        return [
            pages.get(PATH, self.show_list, READ),
            pages.get(PATH + "/new", self.show_form, OPERATE),
            pages.post(PATH + "/new", self.create, OPERATE),
            pages.get(one, self.show, READ),
            pages.post(one + "/cancel", self.cancel, OPERATE),
            pages.post(one + "/approve", self.approve, APPROVE),
            pages.post(one + "/deny", self.deny, APPROVE),
        ]

    async def show_list(self, request: ConsoleRequest) -> ApiResponse:
        filters = _filters(request)
        counted = replace(filters, status=None)
        page = await request.read(listing.list_page, filters, request.page(), request.allowed)
        return request.render(
            "commands/list.html",
            section="commands",
            title="Commands",
            topics=(COMMANDS,),
            page=page,
            names=await request.read(place_names.names_of, page.items),
            filters=filters,
            saved=await saved_filters.shown_filters(request, saved_filters.COMMANDS),
            counts=await request.count(COMMANDS, counted, lambda: listing.counting(counted, request.allowed)),
            states=[state.value for state in State],
            types=list(COMMAND_TYPES),
            address=request.page_link,
            values=dict(request.http.query_params),
            export_path=f"{EXPORT_PATH}?{urlencode(_api_filter(filters))}",
            bulk_path=_bulk_path(filters) if request.may(Area.commands, Role.operator) else None,
            may_send=request.may(Area.commands, Role.operator),
        )

    async def show(self, request: ConsoleRequest) -> ApiResponse:
        command_id = await self._command_id(request)
        detail = await request.read(listing.show, command_id)
        why = await request.write(explanation.explain, self._trail, self._claims, command_id)
        is_open = detail.finished_at is None
        names = await request.read(place_names.names_of, [detail])
        return request.render(
            "commands/command.html",
            section="commands",
            title=f"{detail.command_type} {_target(detail, names)}",
            names=names,
            topics=(COMMANDS,),
            command=detail,
            why=why,
            steps=steps_of(detail.history),
            attempts=attempts_of(detail.history),
            snapshots=snapshots_of(detail),
            path=path_of(command_id),
            may_cancel=is_open and request.may(Area.commands, Role.operator, detail.site_id),
            may_approve=detail.status == WAITING_APPROVAL and request.may(Area.commands, Role.approver, detail.site_id),
            is_own=detail.created_by in request.identities,
            reason_max=cancellation.REASON_CHARACTERS_MAX,
        )

    async def show_form(self, request: ConsoleRequest) -> ApiResponse:
        values = dict(request.http.query_params)
        return await self._form(request, values, Form([]))

    async def create(self, request: ConsoleRequest) -> ApiResponse:
        form, command_type = request.form, request.form.text("command_type", 100)
        try:
            if command_type not in COMMAND_TYPES:
                raise BadInput("command_type", f"one of {', '.join(COMMAND_TYPES)}")
            body = _body(form, command_type)
            creation = CreationRequest(body, request.actor, None, request.allowed, request.identities)
            created = await request.write(creation_requests.create_commands, self._trail, self._creation, creation)
        except RestanteError as error:
            return await self._form(request, dict(form.fields), form, error)
        return request.redirect(path_of(msgspec.json.decode(created.json)["command_id"]), done="command-created")

    async def cancel(self, request: ConsoleRequest) -> ApiResponse:
        command_id = await self._command_id(request)
        await request.write(cancellation.cancel, self._trail, command_id, request.actor, _reason(request.form))
        return request.redirect(path_of(command_id), done="command-cancelled")

    async def approve(self, request: ConsoleRequest) -> ApiResponse:
        command_id = await self._command_id(request)
        await request.write(approval.approve, self._trail, command_id, request.actor, request.identities)
        return request.redirect(_back(request, command_id), done="command-approved")

    async def deny(self, request: ConsoleRequest) -> ApiResponse:
        command_id = await self._command_id(request)
        await request.write(approval.deny, self._trail, command_id, request.actor, _reason(request.form))
        return request.redirect(_back(request, command_id), done="command-denied")

    async def find(self, request: ConsoleRequest, text: str) -> list[Hit]:
        if not text.startswith("cmd_") or len(text) > _COMMAND_ID_CHARACTERS_MAX:
            return []
        try:
            command = await request.read(listing.get, text)
        except NotFound:
            return []
        if command.site_id not in request.allowed:
            return []
        return [Hit("Command", command.command_id, path_of(text), f"{command.command_type}, {command.status}")]

    async def attention(self, request: ConsoleRequest) -> list[Attention]:
        found = []
        waiting = await self._some(request, WAITING_APPROVAL)
        if waiting:
            oldest = parse_iso(waiting[-1].created_at, "created_at")
            text = "Commands wait for approval"
            found.append(Attention("waiting", text, f"{ROOT}{APPROVALS_PATH}", len(waiting), oldest))
        failed = await self._some(request, State.failed.value)
        if failed:
            newest = parse_iso(failed[0].finished_at or failed[0].created_at, "finished_at")
            found.append(Attention("failed", "Commands failed", f"{ROOT}{PATH}?status=failed", len(failed), newest))
        return found

    async def _some(self, request: ConsoleRequest, status: str) -> Sequence[CommandView]:
        """The newest commands in the state, up to a bound: the overview only says that there are some."""
        after = 0
        for _ in range(ATTENTION_PAGES):
            page = await request.read(
                listing.list_page, CommandFilter(status=status), PageRequest(ATTENTION_ROWS, after), request.allowed
            )
            if page.items or page.next is None:
                return page.items
            after = page.next
        return []

    async def _command_id(self, request: ConsoleRequest) -> str:
        """The command of the path; NotFound if it is outside the person's grants."""
        command_id = request.path_text("command_id")
        command = await request.read(listing.get, command_id)
        request.require(command.site_id)
        return command_id

    async def _form(
        self, request: ConsoleRequest, values: dict[str, Any], form: Form, problem: RestanteError | None = None
    ) -> ApiResponse:
        command_type = values.get("command_type") or next(iter(COMMAND_TYPES))
        if command_type not in COMMAND_TYPES:
            raise BadInput("command_type", f"one of {', '.join(COMMAND_TYPES)}")
        given = {name: form.text(_PARAM_PREFIX + name) for name in params_schema(command_type).get("properties", {})}
        named = problem if isinstance(problem, BadInput) else None
        return request.render(
            "commands/new.html",
            section="commands",
            title="New command",
            http_status=200 if problem is None else problem.status,
            types=list(COMMAND_TYPES),
            command_type=command_type,
            choices=await request.read(_choices, request.allowed),
            values=values,
            fields=_fields(command_type, given, named),
            problem="" if problem is None else problem.message,
        )


def path_of(command_id: str) -> str:
    return f"{ROOT}{PATH}/{command_id}"


@cache
def params_schema(command_type: str) -> dict[str, Any]:
    """The JSON Schema of the type's parameters, with all references in `$defs`."""
    declared = COMMAND_TYPES[command_type].schema
    (schema,), definitions = msgspec.json.schema_components([declared], ref_template="#/$defs/{name}")
    own: dict[str, Any] = definitions[schema["$ref"].rpartition("/")[2]]
    return {**own, "$defs": definitions}


def _api_filter(filters: CommandFilter) -> dict[str, Any]:
    """The filter as the parameters of the API: of the export, and of a job."""
    names = ("site_id", "miner_id", "status", "command_type", "created_by", "rule_id")
    return {name: value for name in names if (value := getattr(filters, name)) is not None}


def _bulk_path(filters: CommandFilter) -> str:
    given = [(f"filter.{name}", str(value)) for name, value in _api_filter(replace(filters, status=None)).items()]
    if filters.status is not None:
        given.append(("filter.status", msgspec.json.encode([filters.status]).decode()))
    return f"{ROOT}/jobs/new?{urlencode([('target', 'commands'), *given])}"


def _filters(request: ConsoleRequest) -> CommandFilter:
    status, command_type = request.query_text("status") or None, request.query_text("type") or None
    if status is not None and status not in set(State):
        raise BadInput("status", f"one of {', '.join(State)}")
    if command_type is not None and command_type not in COMMAND_TYPES:
        raise BadInput("type", f"one of {', '.join(COMMAND_TYPES)}")
    return CommandFilter(
        site_id=_optional_id(request, "site"),
        miner_id=_optional_id(request, "miner"),
        status=status,
        command_type=command_type,
        created_by=(request.query_text("by") or "").strip() or None,
        rule_id=_optional_id(request, "rule"),
    )


def _optional_id(request: ConsoleRequest, name: str) -> int | None:
    return request.query_int(name, 0, 1, INT64_MAX) if request.query_text(name) else None


def _choices(conn: Connection, allowed: Any = ALL_IDS) -> list[tuple[sites.Site, list[miners.Miner]]]:
    """The sites and miners that a command can be sent to, up to a bound: retired ones get no commands."""
    found = sites.list_page(conn, PageRequest(CHOICES_MAX, 0), allowed).items
    some = PageRequest(CHOICES_MAX, 0)
    return [
        (site, miners.list_page(conn, MinerFilter(site.id, status="active"), some, allowed).items)
        for site in found
        if site.retired_at is None
    ]


def _fields(command_type: str, given: dict[str, str], problem: BadInput | None) -> list[FormField]:
    """The fields of the type's parameters. What only the collector may read is not shown again."""
    secret = {_PARAM_PREFIX + name for name in COMMAND_TYPES[command_type].secret_params if name.endswith("password")}
    fields = fields_of(params_schema(command_type), given, problem, _PARAM_PREFIX)
    return [replace(each, type="password", value="") if each.name in secret else each for each in fields]


def _body(form: Form, command_type: str) -> CreationBody:
    """The request that the form stands for: for one miner (`site:miner`), or for all miners of a site (`site:`)."""
    site, _, miner = form.required("target", 60).partition(":")
    params = value_of(params_schema(command_type), form, _PARAM_PREFIX)
    target = {"miner_id": miner} if miner else {"all_miners": True}
    fields: dict[str, Any] = {"site_id": site, "command_type": command_type, "params": params, **target}
    for name in ("priority", "ttl_sec"):
        number = form.optional_number(name, 0)
        if number is not None:
            fields[name] = number
    return decode_json(msgspec.json.encode(fields), CreationBody)


def _target(command: CommandView, names: PlaceNames) -> str:
    if command.miner_id is None:
        return f"for site {names.sites[command.site_id]}"
    return f"for miner {names.miners.get(command.miner_id, command.miner_id)}"


def _reason(form: Form) -> str | None:
    return form.text("reason", cancellation.REASON_CHARACTERS_MAX).strip() or None


def _back(request: ConsoleRequest, command_id: str) -> str:
    return f"{ROOT}{APPROVALS_PATH}" if request.form.text("from") == "approvals" else path_of(command_id)
