"""Rollouts: an action in waves. A page for each shows its waves, what has reported success, and who lags behind."""

import re
from collections.abc import Callable

from restante.console.forms.forms import Form
from restante.console.live import CLOCK, COMMANDS, JOBS, UPDATES
from restante.console.navigation import ROOT
from restante.console.pages import Attention, ConsoleRequest, Hit, Pages, PageSet
from restante.core.errors import BadInput, NotFound
from restante.core.rollout_rules import RolloutRules
from restante.database.connection import Connection
from restante.database.paging import Page, PageRequest
from restante.identity.callers import Person
from restante.identity.grants import Area, Role
from restante.jobs import jobs
from restante.jobs.actions import JobActions, Laggard
from restante.jobs.jobs import JobRequest
from restante.jobs.rollouts import rollout_views, rollouts
from restante.jobs.rollouts.rollout_views import RolloutView
from restante.jobs.rollouts.rollouts import FINAL, NAME_CHARACTERS_MAX, STATES, RolloutChange, RolloutRequest
from restante.jobs.rollouts.waves import COUNT_MAX, WAVES_MAX, Wave
from restante.web.bulk.bulk_requests import caller_of
from restante.web.response import ApiResponse
from restante.web.routes import Route

PATH = "/rollouts"
SECONDS_MAX = 30 * 86_400
NOTICED = 100
DEFAULT_WAVES = "1%, 10%, 50%, 100%"
EXPECTED_WAVES = "waves with commas between them: 10% of all, 50 more, or the name of a group"
_PERCENT = re.compile(r"([0-9]{1,3}(?:\.[0-9]{1,2})?) ?%", re.ASCII)

Change = Callable[[Connection, JobActions, str, str], None]


class RolloutPages(PageSet):
    def __init__(self, actions: Callable[[], JobActions]) -> None:
        self._actions = actions

    def routes(self, pages: Pages) -> list[Route]:
        one = PATH + "/{rollout_id}"
        return [
            pages.get(PATH, self.show_list, None),
            pages.get(one, self.show, None),
            pages.post(one + "/thresholds", self.change, None),
            pages.post(one + "/pause", self.pause, None),
            pages.post(one + "/resume", self.resume, None),
            pages.post(one + "/advance", self.advance, None),
            pages.post(one + "/abort", self.abort, None),
            pages.post(one + "/roll-back", self.roll_back, None),
            pages.post(one + "/approve", self.approve, None),
            pages.post(one + "/deny", self.deny, None),
        ]

    async def show_list(self, request: ConsoleRequest) -> ApiResponse:
        state = request.query_text("state") or None
        if state is not None and state not in STATES:
            raise BadInput("state", f"one of {', '.join(STATES)}")
        page = await request.read(rollout_views.list_page, self._actions(), request.person, state, request.page())
        return request.render(
            "rollouts/list.html",
            section="rollouts",
            title="Rollouts",
            topics=(JOBS, CLOCK),
            page=page,
            state_wanted=state,
            states=STATES,
            address=request.page_link,
            name_of=name_of,
        )

    async def show(self, request: ConsoleRequest) -> ApiResponse:
        rollout_id = request.path_text("rollout_id")
        rollout, late, roles, can_undo = await request.read(self._read, rollout_id, request.person, request.page())
        return request.render(
            "rollouts/rollout.html",
            section="rollouts",
            title=name_of(rollout),
            topics=() if rollout.state in FINAL else (JOBS, UPDATES, COMMANDS, CLOCK),
            rollout=rollout,
            laggards=late,
            is_open=rollout.state not in FINAL,
            may_operate=Role.operator in roles,
            may_approve=Role.approver in roles and rollout.created_by != request.actor,
            can_undo=can_undo,
            seconds_max=SECONDS_MAX,
            name_max=NAME_CHARACTERS_MAX,
            path=f"{ROOT}{PATH}/{rollout_id}",
            address=request.page_link,
            wave_text=wave_text,
        )

    async def change(self, request: ConsoleRequest) -> ApiResponse:
        form = request.form
        await request.read(rollouts.find_visible, request.path_text("rollout_id"), request.person, Role.operator)
        changed = RolloutChange(
            name=form.text("name", NAME_CHARACTERS_MAX),
            success_percent=form.whole_number("success_percent", 0, 100),
            error_percent=form.whole_number("error_percent", 0, 100),
            min_wave_seconds=form.whole_number("min_wave_seconds", 0, SECONDS_MAX),
            max_wave_seconds=form.whole_number("max_wave_seconds", 0, SECONDS_MAX),
        )

        def change(conn: Connection, actions: JobActions, rollout_id: str, actor: str) -> None:
            rollouts.change(conn, actions, rollout_id, actor, changed)

        return await self._change(request, Role.operator, change, "rollout-changed")

    async def pause(self, request: ConsoleRequest) -> ApiResponse:
        return await self._change(request, Role.operator, rollouts.pause, "rollout-paused")

    async def resume(self, request: ConsoleRequest) -> ApiResponse:
        return await self._change(request, Role.operator, rollouts.resume, "rollout-resumed")

    async def advance(self, request: ConsoleRequest) -> ApiResponse:
        return await self._change(request, Role.operator, rollouts.advance, "rollout-advanced")

    async def abort(self, request: ConsoleRequest) -> ApiResponse:
        return await self._change(request, Role.operator, rollouts.abort, "rollout-aborted")

    async def roll_back(self, request: ConsoleRequest) -> ApiResponse:
        person = request.person

        def change(conn: Connection, actions: JobActions, rollout_id: str, _actor: str) -> None:
            area = Area(rollouts.find(conn, rollout_id)["area"])
            allowed = jobs.open_to(person, area, Role.operator)
            if allowed is None:
                raise NotFound("there is no such rollout")
            # A person acts on all users' devices as an administrator only.
            role = Role.admin if area is Area.updates and allowed.are_all else Role.operator
            rollouts.roll_back(conn, actions, rollout_id, caller_of(request, allowed), role)

        return await self._change(request, Role.operator, change, "rollout-rolled-back")

    async def approve(self, request: ConsoleRequest) -> ApiResponse:
        identities = request.identities

        def change(conn: Connection, actions: JobActions, rollout_id: str, actor: str) -> None:
            rollouts.approve(conn, actions, rollout_id, actor, identities)

        return await self._change(request, Role.approver, change, "rollout-approved")

    async def deny(self, request: ConsoleRequest) -> ApiResponse:
        return await self._change(request, Role.approver, rollouts.deny, "rollout-denied")

    async def find(self, request: ConsoleRequest, text: str) -> list[Hit]:
        if not text.startswith("rollout_"):
            return []
        try:
            row = await request.read(rollouts.find_visible, text, request.person, Role.viewer)
        except NotFound:
            return []
        return [Hit("Rollout", row["name"] or text, f"{ROOT}{PATH}/{text}", f"{row['action']}, {row['state']}")]

    async def attention(self, request: ConsoleRequest) -> list[Attention]:
        return await request.read(_attention, self._actions(), request.person)

    def _read(
        self, conn: Connection, rollout_id: str, person: Person, page: PageRequest
    ) -> tuple[RolloutView, Page[Laggard], list[Role], bool]:
        row, actions = rollouts.find_visible(conn, rollout_id, person, Role.viewer), self._actions()
        late = rollout_views.laggards(conn, actions, row, page)
        roles = [role for role in Role if jobs.is_visible(row, person, role)]
        can_undo = rollouts.action_of(actions, row).roll_back is not None
        return rollout_views.view(conn, actions, row), late, roles, can_undo

    async def _change(self, request: ConsoleRequest, role: Role, change: Change, done: str) -> ApiResponse:
        rollout_id, person, actor = request.path_text("rollout_id"), request.person, request.actor

        def write(conn: Connection) -> None:
            rollouts.find_visible(conn, rollout_id, person, role)
            change(conn, self._actions(), rollout_id, actor)

        await request.write(write)
        return request.redirect(f"{ROOT}{PATH}/{rollout_id}", done=done)


def rollout_request(form: Form, job: JobRequest) -> RolloutRequest:
    """The rollout of a form: the job in waves, with thresholds."""
    rules = RolloutRules(
        form.whole_number("success_percent", 0, 100),
        form.whole_number("error_percent", 0, 100),
        form.whole_number("min_wave_seconds", 0, SECONDS_MAX),
        form.optional_number("max_wave_seconds", 0, SECONDS_MAX) or 0,
    )
    name = form.text("name", NAME_CHARACTERS_MAX).strip()
    is_boosting = form.text("poll_boost") == "true"
    return RolloutRequest(
        job=job, name=name, waves=parse_waves(form.text("waves")), rules=rules, is_boosting=is_boosting
    )


def parse_waves(text: str) -> list[Wave]:
    """Waves as people write them: `10%`, a number of items, or the name of a group."""
    parts = [part.strip() for part in text.split(",") if part.strip()]
    if not 1 <= len(parts) <= WAVES_MAX:
        raise BadInput("waves", EXPECTED_WAVES)
    return [_wave(part) for part in parts]


def wave_text(wave: Wave) -> str:
    if wave.percent is not None:
        return f"{wave.percent:g} % of all"
    if wave.count is not None:
        return f"{wave.count} more"
    return f"group {wave.group}" if wave.group is not None else f"filter {wave.filter}"


def name_of(rollout: RolloutView) -> str:
    return rollout.name or f"{rollout.action.replace('_', ' ').capitalize()}: {rollout.target}"


def _wave(text: str) -> Wave:
    percent = _PERCENT.fullmatch(text)
    if percent and 0 < float(percent[1]) <= 100:
        return Wave(percent=float(percent[1]))
    if text.isascii() and text.isdecimal() and len(text) < 10 and 1 <= int(text) <= COUNT_MAX:
        return Wave(count=int(text))
    if text[0].isalpha() and len(text) <= 255:
        return Wave(group=text)
    raise BadInput("waves", EXPECTED_WAVES)


def _attention(conn: Connection, actions: JobActions, person: Person) -> list[Attention]:
    found = []
    for state, kind, what in (
        ("paused", "paused", "Rollouts are paused"),
        ("pending_approval", "waiting", "Rollouts wait for approval"),
    ):
        page = rollout_views.list_page(conn, actions, person, state, PageRequest(NOTICED, 0))
        if page.items:
            found.append(Attention(kind, what, f"{ROOT}{PATH}?state={state}", len(page.items)))
    return found
