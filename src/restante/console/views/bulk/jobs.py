"""Jobs: one action on everything that matches a filter. A dry run shows what it would act on; then the job runs on the
server, with progress, pause and abort. The forms are made from the schemas of the action's filter and parameters, so a
protocol that registers an action needs no page of its own.
"""

import secrets
from collections.abc import Callable
from typing import Any
from urllib.parse import urlencode

import msgspec

from restante.console.forms.forms import Form
from restante.console.forms.schema_forms import fields_of, object_schema, value_of
from restante.console.live import CLOCK, COMMANDS, EVENTS, JOBS, UPDATES
from restante.console.navigation import ROOT
from restante.console.pages import Attention, ConsoleRequest, Hit, Pages, PageSet
from restante.console.scopes import allowed_in
from restante.console.views.bulk.rollouts import DEFAULT_WAVES, rollout_request
from restante.core.decoding import decode_json
from restante.core.errors import BadInput, NotFound, RestanteError
from restante.database.connection import Connection, Row
from restante.database.paging import Page, PageRequest
from restante.identity import idempotency
from restante.identity.callers import Person
from restante.identity.grants import AllowedIds, Area, Role
from restante.identity.idempotency import IdempotentRequest
from restante.jobs import jobs
from restante.jobs.actions import JobAction, JobActions, RolloutAction
from restante.jobs.jobs import ENDED, ITEM_STATES, RATE_MAX, STATES, DryRun, JobItemView, JobRequest, JobView
from restante.jobs.rollouts import rollouts
from restante.jobs.rollouts.rollouts import RolloutRequest
from restante.web.bulk.bulk_requests import caller_of, decoded_params
from restante.web.response import ApiResponse
from restante.web.routes import Route

PATH = "/jobs"
FILTER, PARAMS = "filter.", "params."
JOBS_NOTICED = 100
SAMPLE_COLUMNS = 7
# Actions that cannot be undone: the person gives the password again.
FINAL_ACTIONS = {
    ("devices", "revoke"): "revoke all devices that match",
    ("events", "drop"): "drop all events that match",
}
# What the rows of a target are called.
ROWS_OF = {"outbox": "outbox rows"}
# Fields of the form that belong to one step of it.
_STEP_FIELDS = ("form_token", "step", "key", "confirm_password", "confirm_account")

Change = Callable[[Connection, JobActions, str, str], Row]


class JobPages(PageSet):
    def __init__(self, actions: Callable[[], JobActions]) -> None:
        """`actions`: of all protocols; they are known when the node is complete."""
        self._actions = actions

    def routes(self, pages: Pages) -> list[Route]:
        one = PATH + "/{job_id}"
        return [
            pages.get(PATH, self.show_list, None),
            pages.get(PATH + "/new", self.show_form, None),
            pages.post(PATH + "/new", self.create, None),
            pages.get(one, self.show, None),
            pages.post(one + "/pause", self.pause, None),
            pages.post(one + "/resume", self.resume, None),
            pages.post(one + "/abort", self.abort, None),
            pages.post(one + "/approve", self.approve, None),
            pages.post(one + "/deny", self.deny, None),
        ]

    async def show_list(self, request: ConsoleRequest) -> ApiResponse:
        state = request.query_text("state") or None
        if state is not None and state not in STATES:
            raise BadInput("state", f"one of {', '.join(STATES)}")
        page = await request.read(jobs.list_page, request.person, state, None, request.page())
        return request.render(
            "jobs/list.html",
            section="jobs",
            title="Jobs",
            topics=(JOBS, CLOCK),
            page=page,
            state_wanted=state,
            states=STATES,
            address=request.page_link,
            percent=percent_of,
        )

    async def show(self, request: ConsoleRequest) -> ApiResponse:
        state = request.query_text("items") or None
        if state is not None and state not in ITEM_STATES:
            raise BadInput("items", f"one of {', '.join(ITEM_STATES)}")
        job_id, window = request.path_text("job_id"), request.page()
        job, items, roles = await request.read(self._read, job_id, request.person, state, window)
        return request.render(
            "jobs/job.html",
            section="jobs",
            title=f"{job.action.replace('_', ' ').capitalize()}: {ROWS_OF.get(job.target, job.target)}",
            topics=() if job.state in ENDED else (JOBS, UPDATES, COMMANDS, EVENTS, CLOCK),
            job=job,
            items=items,
            item_state=state,
            item_states=ITEM_STATES,
            percent=percent_of(job),
            is_open=job.state not in ENDED,
            may_operate=Role.operator in roles,
            may_approve=Role.approver in roles and job.created_by != request.actor,
            path=f"{ROOT}{PATH}/{job_id}",
            address=request.page_link,
        )

    async def show_form(self, request: ConsoleRequest) -> ApiResponse:
        form = Form([*request.http.query_params.multi_items()])
        return self._form(request, form)

    async def create(self, request: ConsoleRequest) -> ApiResponse:
        """The first post is a dry run; the second one, from its page, creates the job, once."""
        form = request.form
        try:
            wanted = self._job_request(request, form)
            final = FINAL_ACTIONS.get((wanted.action.target.name, wanted.action.name))
            if form.text("step") == "run" and final and (asked := await request.ask_password(final)) is not None:
                return asked
            if form.text("step") not in ("run", "rollout"):
                return self._form(request, form, result=await request.read(jobs.dry_run, wanted))
            if form.text("step") == "rollout":
                return await self._create_rollout(request, wanted)
            once = IdempotentRequest(request.actor, idempotency.checked_key(form.text("key", 100)), form_digest(form))
            created = await request.write(_create, wanted, await request.read(jobs.count, wanted), once)
        except RestanteError as error:
            return self._form(request, form, error)
        return request.redirect(f"{ROOT}{PATH}/{created}", done="job-created")

    async def _create_rollout(self, request: ConsoleRequest, wanted: JobRequest) -> ApiResponse:
        """The job in waves, once."""
        form = request.form
        rollout, total = rollout_request(form, wanted), await request.read(jobs.count, wanted)
        once = IdempotentRequest(request.actor, idempotency.checked_key(form.text("key", 100)), form_digest(form))
        created = await request.write(_create_rollout, rollout, total, once)
        return request.redirect(f"{ROOT}/rollouts/{created}", done="rollout-created")

    async def pause(self, request: ConsoleRequest) -> ApiResponse:
        return await self._change(request, Role.operator, jobs.pause, "job-paused")

    async def resume(self, request: ConsoleRequest) -> ApiResponse:
        return await self._change(request, Role.operator, jobs.resume, "job-resumed")

    async def abort(self, request: ConsoleRequest) -> ApiResponse:
        return await self._change(request, Role.operator, jobs.abort, "job-aborted")

    async def approve(self, request: ConsoleRequest) -> ApiResponse:
        identities = request.identities

        def change(conn: Connection, actions: JobActions, job_id: str, actor: str) -> Row:
            return jobs.approve(conn, actions, job_id, actor, identities)

        return await self._change(request, Role.approver, change, "job-approved")

    async def deny(self, request: ConsoleRequest) -> ApiResponse:
        reason = request.form.text("reason", jobs.REASON_CHARACTERS_MAX).strip() or None

        def change(conn: Connection, actions: JobActions, job_id: str, actor: str) -> Row:
            return jobs.deny(conn, actions, job_id, actor, reason)

        return await self._change(request, Role.approver, change, "job-denied")

    async def find(self, request: ConsoleRequest, text: str) -> list[Hit]:
        if not text.startswith("job_"):
            return []
        try:
            row = await request.read(jobs.find_visible, text, request.person, Role.viewer)
        except NotFound:
            return []
        return [Hit("Job", text, f"{ROOT}{PATH}/{text}", f"{row['action']} {row['target']}, {row['state']}")]

    async def attention(self, request: ConsoleRequest) -> list[Attention]:
        return await request.read(_attention, request.person)

    def _read(
        self, conn: Connection, job_id: str, person: Person, state: str | None, page: PageRequest
    ) -> tuple[JobView, Page[JobItemView], list[Role]]:
        row = jobs.find_visible(conn, job_id, person, Role.viewer)
        items = jobs.items_page(conn, self._actions(), row, state, page)
        roles = [role for role in Role if jobs.is_visible(row, person, role)]
        return jobs.show(conn, self._actions(), row), items, roles

    async def _change(self, request: ConsoleRequest, role: Role, change: Change, done: str) -> ApiResponse:
        job_id, person, actor = request.path_text("job_id"), request.person, request.actor

        def write(conn: Connection) -> None:
            jobs.find_visible(conn, job_id, person, role)
            change(conn, self._actions(), job_id, actor)

        await request.write(write)
        return request.redirect(f"{ROOT}{PATH}/{job_id}", done=done)

    def _job_request(self, request: ConsoleRequest, form: Form) -> JobRequest:
        action = self._action(form)
        if action is None:
            raise BadInput("action", "one of the actions of the page")
        target = action.target
        allowed = self._allowed(request, target.area)
        given = value_of(object_schema(target.given_type), form, FILTER)
        if not given and form.text("all") != "true":
            raise BadInput("filter", "at least one field, or the box for everything that you may change")
        filters = action.narrow(decode_json(msgspec.json.encode(given), target.given_type))
        raw = msgspec.Raw(msgspec.json.encode(value_of(object_schema(action.params_type), form, PARAMS)))
        return JobRequest(
            action=action,
            filters=filters,
            params=decoded_params(raw, action.params_type),
            caller=caller_of(request, allowed),
            # A person acts on all users' devices as an administrator only.
            role=Role.admin if target.area is Area.updates and allowed.are_all else Role.operator,
            rate_per_second=form.optional_number("rate", 1, RATE_MAX),
        )

    def _action(self, form: Form) -> JobAction[Any] | None:
        return self._actions().find(form.text("target", 100), form.text("action", 100))

    def _allowed(self, request: ConsoleRequest, area: Area) -> AllowedIds:
        allowed = allowed_in(request.person, area, Role.operator)
        if allowed is None:
            raise NotFound("There is no such page, or your grants do not include it.")
        return allowed

    def _form(
        self,
        request: ConsoleRequest,
        form: Form,
        problem: RestanteError | None = None,
        result: DryRun | None = None,
    ) -> ApiResponse:
        actions = self._actions().of_target(form.text("target", 100))
        if not actions:
            raise NotFound("There is no such page, or your grants do not include it.")
        target = actions[0].target
        self._allowed(request, target.area)
        action = self._action(form)
        wrong = problem if isinstance(problem, BadInput) else None
        filters, params = _given(form, FILTER), _given(form, PARAMS)
        return request.render(
            "jobs/new.html",
            section="jobs",
            title=f"Act on {ROWS_OF.get(target.name, target.name)}",
            rows_name=ROWS_OF.get(target.name, target.name),
            http_status=200 if problem is None else problem.status,
            target=target.name,
            actions=[(each.name, _form_path(form, each.name), each is action) for each in actions],
            action=action.name if action else "",
            filter_fields=fields_of(object_schema(target.given_type), filters, wrong, FILTER),
            param_fields=[] if action is None else fields_of(object_schema(action.params_type), params, wrong, PARAMS),
            given_filter={name: value for name, value in filters.items() if value.strip()},
            is_all=form.text("all") == "true",
            rate=form.text("rate"),
            rate_max=RATE_MAX,
            problem="" if problem is None else problem.message,
            result=result,
            sample=sample_table([] if result is None else result.sample),
            fields=[pair for pair in form.fields if pair[0] not in _STEP_FIELDS],
            key=secrets.token_hex(16),
            can_roll_out=isinstance(action, RolloutAction),
            waves=form.text("waves") or DEFAULT_WAVES,
        )


def percent_of(job: JobView) -> int:
    """How much of the job is done, of 100."""
    acted = job.done + job.failed + job.skipped
    return 100 if job.state == "done" or not job.total else min(100, acted * 100 // job.total)


def sample_table(sample: list[Any]) -> tuple[list[str], list[list[Any]]]:
    """Some rows as a table: the first fields that have a value in any of them, and their values."""
    rows = [msgspec.to_builtins(each) for each in sample]
    rows = [row for row in rows if isinstance(row, dict)]
    names = [name for name in (rows[0] if rows else ()) if any(_is_shown(row.get(name)) for row in rows)]
    shown = names[:SAMPLE_COLUMNS]
    return shown, [[row.get(name) for name in shown] for row in rows]


def _is_shown(value: Any) -> bool:
    return value not in (None, "") and isinstance(value, str | int | float)


def form_digest(form: Form) -> bytes:
    """What distinguishes two forms: their fields, without those of one step."""
    return repr(sorted(pair for pair in form.fields if pair[0] not in _STEP_FIELDS)).encode()


def filter_query(fields: dict[str, str]) -> list[tuple[str, str]]:
    """The filter of a list, as parameters of the page for a new job."""
    return [(FILTER + name, value) for name, value in fields.items()]


def _form_path(form: Form, action: str) -> str:
    """The page of another action on the same rows."""
    kept = [(name, value) for name, value in form.fields if name.startswith(FILTER) and value.strip()]
    return f"{ROOT}{PATH}/new?{urlencode([('target', form.text('target')), ('action', action), *kept])}"


def _given(form: Form, prefix: str) -> dict[str, str]:
    return {name.removeprefix(prefix): value for name, value in form.fields if name.startswith(prefix)}


def _create(conn: Connection, wanted: JobRequest, total: int, once: IdempotentRequest) -> str:
    result = idempotency.run_once(conn, once, lambda: msgspec.json.encode(jobs.create(conn, wanted, total).job_id))
    return msgspec.json.decode(result.json, type=str)


def _create_rollout(conn: Connection, wanted: RolloutRequest, total: int, once: IdempotentRequest) -> str:
    result = idempotency.run_once(
        conn, once, lambda: msgspec.json.encode(rollouts.create(conn, wanted, total)["rollout_id"])
    )
    return msgspec.json.decode(result.json, type=str)


def _attention(conn: Connection, person: Person) -> list[Attention]:
    found = []
    for state, kind, what in (
        ("failed", "failed", "Jobs failed"),
        ("paused", "paused", "Jobs are paused"),
        ("pending_approval", "waiting", "Jobs wait for approval"),
    ):
        page = jobs.list_page(conn, person, state, None, PageRequest(JOBS_NOTICED, 0))
        if page.items:
            found.append(Attention(kind, what, f"{ROOT}{PATH}?state={state}", len(page.items)))
    return found
