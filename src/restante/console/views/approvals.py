"""The inbox of approvals: commands, jobs and rollouts that wait for a second person."""

from collections.abc import Callable

from restante.commands.lifecycle import listing
from restante.commands.lifecycle.listing import CommandFilter, CommandView
from restante.commands.sites import place_names
from restante.console.live import COMMANDS, JOBS
from restante.console.pages import ConsoleRequest, Needs, Pages, PageSet
from restante.console.views.bulk.rollouts import name_of
from restante.core.commands.command_states import State
from restante.database.paging import Page, PageRequest
from restante.identity.grants import Area, Role
from restante.jobs import jobs
from restante.jobs.actions import JobActions
from restante.jobs.rollouts import rollout_views
from restante.web.response import ApiResponse
from restante.web.routes import Route

PATH = "/approvals"
WAITING = State.pending_approval.value
ROWS = 50
READ_COMMANDS = Needs(Area.commands)


class ApprovalPages(PageSet):
    def __init__(self, actions: Callable[[], JobActions]) -> None:
        self._actions = actions

    def routes(self, pages: Pages) -> list[Route]:
        return [pages.get(PATH, self.show, None)]

    async def show(self, request: ConsoleRequest) -> ApiResponse:
        """Who made a command, job or rollout cannot approve it."""
        window, page = PageRequest(ROWS, 0), await self._commands(request)
        held = await request.read(jobs.list_page, request.person, WAITING, None, window)
        rollouts = await request.read(rollout_views.list_page, self._actions(), request.person, WAITING, window)
        return request.render(
            "commands/approvals.html",
            section="approvals",
            title="Approvals",
            topics=(COMMANDS, JOBS),
            page=page,
            names=await request.read(place_names.names_of, page.items),
            jobs=held.items,
            rollouts=rollouts.items,
            name_of=name_of,
            address=request.page_link,
            may_approve=lambda command: request.may(Area.commands, Role.approver, command.site_id),
            is_own=lambda waiting: waiting.created_by in (*request.identities, request.actor),
        )

    async def _commands(self, request: ConsoleRequest) -> Page[CommandView]:
        narrowed = request.narrowed_to(READ_COMMANDS)
        if narrowed is None:
            return Page([], None)
        waiting = CommandFilter(status=WAITING)
        return await request.read(listing.list_page, waiting, request.page(), narrowed.allowed)
