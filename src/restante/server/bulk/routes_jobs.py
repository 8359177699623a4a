"""Operator routes for jobs of all protocols: list, show, results, pause, resume, abort, approve and deny."""

from collections.abc import Callable
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from restante.core.errors import BadInput
from restante.database.connection import Connection, Row
from restante.database.database import Database
from restante.database.paging import Page
from restante.identity.callers import Operator
from restante.identity.grants import Role
from restante.jobs import jobs
from restante.jobs.actions import JobActions
from restante.jobs.jobs import ITEM_STATES, REASON_CHARACTERS_MAX, STATES, JobItemView, JobView
from restante.updates.response_format import RESPONSE_FORMAT
from restante.web.paging import PAGE_QUERY, page_request_of
from restante.web.request import ApiRequest
from restante.web.routes import Access, Query, Route, RouteGroup

TAG = "jobs"
PATH = "/apiv1/jobs"
ONE = PATH + "/{job_id}"

TARGETS = ("devices", "outbox", "miners", "commands", "events", "rollout_devices", "rollout_miners")
_STATE = Query("state", "only jobs in this state", {"type": "string", "enum": list(STATES)})
_TARGET = Query("target", "only jobs on this kind of rows", {"type": "string", "enum": list(TARGETS)})
_ITEM_STATE = Query("state", "only items with this result", {"type": "string", "enum": list(ITEM_STATES)})

Change = Callable[[Connection, JobActions, str, str], Row]


class Denial(msgspec.Struct, forbid_unknown_fields=True):
    reason: Annotated[str, Meta(min_length=1, max_length=REASON_CHARACTERS_MAX, pattern=r"^[^\x00]*\Z")] | None = None


class JobRoutes:
    def __init__(self, database: Database, actions: JobActions) -> None:
        self._database = database
        self._actions = actions

    def routes(self) -> list[Route]:
        group = RouteGroup(TAG, RESPONSE_FORMAT)
        read, operate, approve = Access.jobs_read, Access.jobs_operate, Access.jobs_approve
        items_query = (*PAGE_QUERY, _ITEM_STATE)
        denied: dict[str, Any] = {"reason": "not on a Friday"}
        return [
            group.get(PATH, self.list_page, read, "List jobs, newest first", query=(*PAGE_QUERY, _STATE, _TARGET)),
            group.get(ONE, self.show, read, "Show a job and its progress", errors=(404,)),
            group.get(ONE + "/items", self.items, read, "List the results of a job", query=items_query, errors=(404,)),
            group.post(ONE + "/pause", self.pause, operate, "Pause a job", errors=(404, 409)),
            group.post(ONE + "/resume", self.resume, operate, "Resume a paused job", errors=(404, 409)),
            group.post(ONE + "/abort", self.abort, operate, "Abort a job; what is done stays done", errors=(404, 409)),
            group.post(ONE + "/approve", self.approve, approve, "Approve a job", errors=(404, 409)),
            group.post(
                ONE + "/deny",
                self.deny,
                approve,
                "Deny a job that waits for approval",
                errors=(404, 409),
                body_optional=True,
                examples=(denied,),
            ),
        ]

    async def list_page(self, request: ApiRequest) -> Page[JobView]:
        state = _choice(request, "state", STATES)
        target = _choice(request, "target", TARGETS)
        return await self._database.read(jobs.list_page, _operator(request), state, target, page_request_of(request))

    async def show(self, request: ApiRequest) -> JobView:
        """`outcomes` shows what became of what the job started, for example how many of its commands succeeded."""
        return await self._database.read(self._show, request.path_text("job_id"), _operator(request))

    async def items(self, request: ApiRequest) -> Page[JobItemView]:
        state = _choice(request, "state", ITEM_STATES)
        page = page_request_of(request)
        job_id, caller = request.path_text("job_id"), _operator(request)

        def read(conn: Connection) -> Page[JobItemView]:
            job = jobs.find_visible(conn, job_id, caller, Role.viewer)
            return jobs.items_page(conn, self._actions, job, state, page)

        return await self._database.read(read)

    async def pause(self, request: ApiRequest) -> JobView:
        return await self._change(request, Role.operator, jobs.pause)

    async def resume(self, request: ApiRequest) -> JobView:
        return await self._change(request, Role.operator, jobs.resume)

    async def abort(self, request: ApiRequest) -> JobView:
        return await self._change(request, Role.operator, jobs.abort)

    async def approve(self, request: ApiRequest) -> JobView:
        """Nobody approves a job that they created, or that a key of theirs created."""
        identities = request.identities

        def change(conn: Connection, actions: JobActions, job_id: str, actor: str) -> Row:
            return jobs.approve(conn, actions, job_id, actor, identities)

        return await self._change(request, Role.approver, change)

    async def deny(self, request: ApiRequest, body: Denial) -> JobView:
        def change(conn: Connection, actions: JobActions, job_id: str, actor: str) -> Row:
            return jobs.deny(conn, actions, job_id, actor, body.reason)

        return await self._change(request, Role.approver, change)

    async def _change(self, request: ApiRequest, role: Role, change: Change) -> JobView:
        job_id, caller, actor = request.path_text("job_id"), _operator(request), request.actor

        def write(conn: Connection) -> JobView:
            jobs.find_visible(conn, job_id, caller, role)
            return jobs.view(change(conn, self._actions, job_id, actor))

        return await self._database.write(write)

    def _show(self, conn: Connection, job_id: str, caller: Operator) -> JobView:
        return jobs.show(conn, self._actions, jobs.find_visible(conn, job_id, caller, Role.viewer))


def _choice(request: ApiRequest, name: str, values: tuple[str, ...]) -> str | None:
    text = request.query_text(name)
    if text is not None and text not in values:
        raise BadInput(name, f"one of {', '.join(values)}")
    return text


def _operator(request: ApiRequest) -> Operator:
    assert isinstance(request.caller, Operator)  # noqa: S101 — access control admits no other caller
    return request.caller
