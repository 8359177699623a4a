"""Operator routes for staged rollouts: create, show and change them, name laggards, pause, advance, roll back."""

from collections.abc import Callable
from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from restante.core.decoding import convert
from restante.core.errors import BadInput, NotAllowed
from restante.core.rollout_rules import RolloutRules
from restante.database.connection import Connection
from restante.database.database import Database
from restante.database.paging import Page
from restante.identity import idempotency as stored_responses
from restante.identity.callers import Operator, Person
from restante.identity.grants import Area, Role
from restante.identity.idempotency import IdempotentRequest, IdempotentResult
from restante.jobs import jobs
from restante.jobs.actions import JobActions, JobCaller, Laggard, RolloutAction
from restante.jobs.jobs import RATE_MAX, DryRun, JobRequest
from restante.jobs.rollouts import rollout_views, rollouts, waves
from restante.jobs.rollouts.rollout_views import RolloutView
from restante.jobs.rollouts.rollouts import NAME_CHARACTERS_MAX, STATES, RolloutChange, RolloutRequest
from restante.jobs.rollouts.waves import WAVES_MAX, Wave
from restante.updates.response_format import RESPONSE_FORMAT
from restante.web import idempotency
from restante.web.bulk.bulk_requests import caller_of, check_filter, decoded_params
from restante.web.paging import PAGE_QUERY, page_request_of
from restante.web.request import ApiRequest
from restante.web.response import ApiResponse
from restante.web.routes import Access, Query, ResponseInfo, Route, RouteGroup

TAG = "rollouts"
PATH = "/apiv1/rollouts"
ONE = PATH + "/{rollout_id}"
CREATED = 201
WAVE_SECONDS_MAX = 30 * 86_400

Percent = Annotated[int, Meta(ge=0, le=100)]
Seconds = Annotated[int, Meta(ge=0, le=WAVE_SECONDS_MAX)]
Rate = Annotated[int, Meta(ge=1, le=RATE_MAX)]
Name = Annotated[str, Meta(max_length=NAME_CHARACTERS_MAX, pattern=r"^[^\x00]*\Z")]

_STATE = Query("state", "only rollouts in this state", {"type": "string", "enum": list(STATES)})
_DEVICES_EXAMPLE = {
    "name": "new certificate path",
    "target": "devices",
    "action": "put_config",
    "filter": {"tag": "kiosk"},
    "params": {"installs": [{"id": "site", "type": "copy", "from": ["fullchain.pem"], "to": ["/etc/ssl/site.pem"]}]},
    "waves": [{"count": 5}, {"percent": 10}, {"percent": 100}],
    "success_percent": 95,
    "error_percent": 2,
    "min_wave_seconds": 600,
}
_MINERS_EXAMPLE = {
    "target": "miners",
    "action": "send",
    "filter": {"site_id": 1},
    "params": {"command_type": "MINER_RESTART"},
    "waves": [{"percent": 10}, {"percent": 100}],
    "dry_run": True,
}


class RolloutBody(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """A bulk action in waves. `filter` and `params` are those of the bulk action.

    The next wave begins when `success_percent` of the current one have reported success, `min_wave_seconds` after its
    begin at the earliest. The rollout pauses when more than `error_percent` have failed, or when the success is missing
    after `max_wave_seconds` (0: never). `poll_boost`: devices are asked to poll faster meanwhile.
    """

    target: Literal["devices", "miners"]
    action: Literal["put_config", "patch_config", "assign_certificate", "renew_certificates", "send"]
    name: Name = ""
    filter: dict[str, Any] = {}
    all: bool = False
    params: msgspec.Raw | UnsetType = UNSET
    waves: Annotated[list[Wave], Meta(min_length=1, max_length=WAVES_MAX)] = msgspec.field(
        default_factory=lambda: list(waves.DEFAULT_WAVES)
    )
    success_percent: Percent = 95
    error_percent: Percent = 5
    min_wave_seconds: Seconds = 60
    max_wave_seconds: Seconds = 0
    rate_per_second: Rate | None = None
    poll_boost: bool = True
    dry_run: bool = False


class RolloutChangeBody(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """Only the given fields change."""

    name: Name | None = None
    success_percent: Percent | None = None
    error_percent: Percent | None = None
    min_wave_seconds: Seconds | None = None
    max_wave_seconds: Seconds | None = None


Change = Callable[[Connection, JobActions, str, str], None]


class RolloutRoutes:
    def __init__(self, database: Database, actions: JobActions) -> None:
        self._database = database
        self._actions = actions

    def routes(self) -> list[Route]:
        group = RouteGroup(TAG, RESPONSE_FORMAT)
        read, operate, approve = Access.jobs_read, Access.jobs_operate, Access.jobs_approve
        refused = (404, 409)
        return [
            group.post(
                PATH,
                self.create,
                operate,
                "Create a rollout",
                status=CREATED,
                errors=(422,),
                headers=(idempotency.KEY_HEADER,),
                examples=(_DEVICES_EXAMPLE, _MINERS_EXAMPLE),
                responses=(
                    ResponseInfo(CREATED, RolloutView, (idempotency.REPLAYED_HEADER,), meaning="The rollout."),
                    ResponseInfo(200, DryRun, meaning="`dry_run`: what the rollout would act on."),
                ),
            ),
            group.get(PATH, self.list_page, read, "List rollouts, newest first", query=(*PAGE_QUERY, _STATE)),
            group.get(ONE, self.show, read, "Show a rollout and its waves", errors=(404,)),
            group.patch(
                ONE,
                self.change,
                operate,
                "Change the name or the thresholds of a rollout",
                errors=refused,
                examples=({"error_percent": 10},),
            ),
            group.get(
                ONE + "/laggards",
                self.laggards,
                read,
                "List the items that have not reported success",
                query=PAGE_QUERY,
                errors=refused,
            ),
            group.post(ONE + "/pause", self.pause, operate, "Pause a rollout", errors=refused),
            group.post(ONE + "/resume", self.resume, operate, "Resume a rollout", errors=refused),
            group.post(ONE + "/advance", self.advance, operate, "Begin the next wave now", errors=refused),
            group.post(ONE + "/abort", self.abort, operate, "Abort a rollout; what is done stays done", errors=refused),
            group.post(ONE + "/roll-back", self.roll_back, operate, "Undo a rollout", errors=refused),
            group.post(ONE + "/approve", self.approve, approve, "Approve a rollout", errors=refused),
            group.post(ONE + "/deny", self.deny, approve, "Deny a rollout that waits for approval", errors=refused),
        ]

    async def create(self, request: ApiRequest, body: RolloutBody) -> ApiResponse:
        """A rollout of an install config, of certificates, or of a command. Each wave is a job."""
        rollout = self._request(request, body)
        key = idempotency.key_of(request)
        if body.dry_run:
            return RESPONSE_FORMAT.success(await self._database.read(_dry_run, rollout), 200)
        digest = rollout.job.action.request_digest(b"rollout " + msgspec.json.encode(body))
        total = await self._database.read(jobs.count, rollout.job)
        idempotent = IdempotentRequest(request.actor, key, digest)
        result = await self._database.write(_create, self._actions, rollout, total, idempotent)
        return idempotency.created_response(result, CREATED)

    async def list_page(self, request: ApiRequest) -> Page[RolloutView]:
        state = request.query_text("state")
        if state is not None and state not in STATES:
            raise BadInput("state", f"one of {', '.join(STATES)}")
        page, caller = page_request_of(request), _operator(request)
        return await self._database.read(rollout_views.list_page, self._actions, caller, state, page)

    async def show(self, request: ApiRequest) -> RolloutView:
        """What each wave has reported: `succeeded`, `failed`, `waiting`."""
        rollout_id, caller = request.path_text("rollout_id"), _operator(request)

        def read(conn: Connection) -> RolloutView:
            row = rollouts.find_visible(conn, rollout_id, caller, Role.viewer)
            return rollout_views.view(conn, self._actions, row)

        return await self._database.read(read)

    async def laggards(self, request: ApiRequest) -> Page[Laggard]:
        """Devices or miners of the waves so far that have reported nothing, or a failure."""
        rollout_id, caller, page = request.path_text("rollout_id"), _operator(request), page_request_of(request)

        def read(conn: Connection) -> Page[Laggard]:
            row = rollouts.find_visible(conn, rollout_id, caller, Role.viewer)
            return rollout_views.laggards(conn, self._actions, row, page)

        return await self._database.read(read)

    async def change(self, request: ApiRequest, body: RolloutChangeBody) -> RolloutView:
        fields = {name: value for name, value in msgspec.structs.asdict(body).items() if value is not None}
        if not fields:
            raise BadInput("body", "at least one field")

        def change(conn: Connection, actions: JobActions, rollout_id: str, actor: str) -> None:
            rollouts.change(conn, actions, rollout_id, actor, RolloutChange(**fields))

        return await self._change(request, Role.operator, change)

    async def pause(self, request: ApiRequest) -> RolloutView:
        return await self._change(request, Role.operator, rollouts.pause)

    async def resume(self, request: ApiRequest) -> RolloutView:
        """Failures that are known by now do not pause the rollout again."""
        return await self._change(request, Role.operator, rollouts.resume)

    async def advance(self, request: ApiRequest) -> RolloutView:
        """Does not wait for the success of the current wave."""
        return await self._change(request, Role.operator, rollouts.advance)

    async def abort(self, request: ApiRequest) -> RolloutView:
        return await self._change(request, Role.operator, rollouts.abort)

    async def roll_back(self, request: ApiRequest) -> RolloutView:
        """Configs get the version before, assigned certificates are unassigned, commands that have not ended are
        cancelled. Renewed certificates cannot be rolled back."""
        caller = _operator(request)

        def change(conn: Connection, actions: JobActions, rollout_id: str, _actor: str) -> None:
            area = Area(rollouts.find(conn, rollout_id)["area"])
            rollouts.roll_back(conn, actions, rollout_id, *_rights(request, caller, area))

        return await self._change(request, Role.operator, change)

    async def approve(self, request: ApiRequest) -> RolloutView:
        """Nobody approves a rollout that they created, or that a key of theirs created."""
        identities = request.identities

        def change(conn: Connection, actions: JobActions, rollout_id: str, actor: str) -> None:
            rollouts.approve(conn, actions, rollout_id, actor, identities)

        return await self._change(request, Role.approver, change)

    async def deny(self, request: ApiRequest) -> RolloutView:
        return await self._change(request, Role.approver, rollouts.deny)

    def _request(self, request: ApiRequest, body: RolloutBody) -> RolloutRequest:
        action = self._actions.find(body.target, body.action)
        if not isinstance(action, RolloutAction):
            raise BadInput("action", f"an action of {body.target}")
        caller, role = _rights(request, _operator(request), action.target.area)
        filters = convert(body.filter, action.target.filter_type, "filter")
        check_filter(filters, is_all=body.all)
        job = JobRequest(
            action=action,
            filters=action.narrow(filters),
            params=decoded_params(body.params, action.params_type),
            caller=caller,
            role=role,
            rate_per_second=body.rate_per_second,
        )
        rules = RolloutRules(body.success_percent, body.error_percent, body.min_wave_seconds, body.max_wave_seconds)
        return RolloutRequest(job=job, name=body.name, waves=body.waves, rules=rules, is_boosting=body.poll_boost)

    async def _change(self, request: ApiRequest, role: Role, change: Change) -> RolloutView:
        rollout_id, caller, actor = request.path_text("rollout_id"), _operator(request), request.actor

        def write(conn: Connection) -> RolloutView:
            rollouts.find_visible(conn, rollout_id, caller, role)
            change(conn, self._actions, rollout_id, actor)
            return rollout_views.view(conn, self._actions, rollouts.find(conn, rollout_id))

        return await self._database.write(write)


def _rights(request: ApiRequest, caller: Operator, area: Area) -> tuple[JobCaller, Role]:
    """The caller within the area, and the role that it needs while the rollout runs."""
    allowed = jobs.open_to(caller, area, Role.operator)
    if allowed is None:
        raise NotAllowed(
            f"this needs the role operator for {area.value}; yours is {', '.join(caller.grants.as_texts())}"
        )
    is_on_all_users = isinstance(caller, Person) and area is Area.updates and allowed.are_all
    return caller_of(request, allowed), Role.admin if is_on_all_users else Role.operator


def _dry_run(conn: Connection, request: RolloutRequest) -> DryRun:
    rollouts.check(conn, request)
    return jobs.dry_run(conn, request.job)


def _create(
    conn: Connection, actions: JobActions, request: RolloutRequest, total: int, idempotent: IdempotentRequest
) -> IdempotentResult:
    def create() -> bytes:
        row = rollouts.create(conn, request, total)
        return RESPONSE_FORMAT.success(rollout_views.view(conn, actions, row), CREATED).body

    return stored_responses.run_once(conn, idempotent, create)


def _operator(request: ApiRequest) -> Operator:
    assert isinstance(request.caller, Operator)  # noqa: S101 — access control admits no other caller
    return request.caller
