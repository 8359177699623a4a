"""`POST …/bulk`: one action on everything that matches a filter.

    dry_run     how many rows match, and some of them; nothing is changed
    otherwise   202 with a job, which the server runs

An empty filter is refused unless the request says `all: true`. The caller's grants limit what the filter finds, now and
while the job runs. A protocol subclasses `BulkRequest` with its own actions and its own filter.
"""

from collections.abc import Iterable
from typing import Annotated, Any, TypeVar

import msgspec
from msgspec import UNSET, Meta, UnsetType

from restante.core.decoding import decode_json
from restante.core.errors import BadInput, MissingField, UnknownField
from restante.database.connection import Connection
from restante.database.database import Database
from restante.identity import idempotency as stored_responses
from restante.identity.callers import ApiKeyCaller, Operator, Person
from restante.identity.grants import AllowedIds, Role
from restante.identity.idempotency import IdempotentRequest, IdempotentResult
from restante.jobs import jobs
from restante.jobs.actions import JobAction, JobCaller
from restante.jobs.jobs import RATE_MAX, DryRun, JobRequest, JobView
from restante.web import idempotency
from restante.web.access import TEAMS, role_needed
from restante.web.request import ApiRequest
from restante.web.response import ApiResponse
from restante.web.routes import Access, ResponseFormat, ResponseInfo, RouteOptions

ACCEPTED = 202

F = TypeVar("F", bound=msgspec.Struct)
P = TypeVar("P", bound=msgspec.Struct)


class BulkRequest(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """`params` depend on the action. `rate_per_second` bounds how many rows the job acts on in a second."""

    all: bool = False
    params: msgspec.Raw | UnsetType = UNSET
    dry_run: bool = False
    rate_per_second: Annotated[int, Meta(ge=1, le=RATE_MAX)] | None = None


def bulk_options(*examples: Any, errors: tuple[int, ...] = ()) -> RouteOptions:
    """What the OpenAPI document says about a bulk route."""
    return RouteOptions(
        status=ACCEPTED,
        errors=(404, 409, 422, *errors),
        headers=(idempotency.KEY_HEADER,),
        examples=examples,
        responses=(
            ResponseInfo(ACCEPTED, JobView, (idempotency.REPLAYED_HEADER,), meaning="The job was created."),
            ResponseInfo(200, DryRun, meaning="`dry_run`: what the job would act on."),
        ),
    )


class BulkHandler:
    """Handles the bulk requests of one target."""

    def __init__(
        self, database: Database, actions: Iterable[JobAction[Any]], access: Access, response_format: ResponseFormat
    ) -> None:
        self._database = database
        self._actions = {action.name: action for action in actions}
        self._access = access
        self._response_format = response_format

    async def handle(self, request: ApiRequest, action_name: str, filters: F, body: BulkRequest) -> ApiResponse:
        action = self._actions[action_name]
        check_filter(filters, is_all=body.all)
        filters = action.narrow(filters)
        job_request = JobRequest(
            action=action,
            filters=filters,
            params=decoded_params(body.params, action.params_type),
            caller=caller_of(request),
            role=self._role(request),
            rate_per_second=body.rate_per_second,
        )
        key = idempotency.key_of(request)
        if body.dry_run:
            return self._response_format.success(await self._database.read(jobs.dry_run, job_request), 200)
        # Outside the transaction that creates the job: counting a large fleet takes a while.
        total = await self._database.read(jobs.count, job_request)
        digest = action.request_digest(b"%b %b" % (request.http.url.path.encode(), msgspec.json.encode(body)))
        idempotent = IdempotentRequest(request.actor, key, digest)
        result = await self._database.write(_create, job_request, total, idempotent, self._response_format)
        return idempotency.created_response(result, ACCEPTED)

    def _role(self, request: ApiRequest) -> Role:
        """The role that the caller needs while the job runs. A person acts on all users' devices as an admin only."""
        caller = _operator(request)
        is_on_all = self._access in TEAMS and isinstance(caller, Person) and request.allowed.are_all
        return Role.admin if is_on_all else role_needed(self._access, caller)


def decoded_params(raw: msgspec.Raw | UnsetType, into: type[P]) -> P:
    """The parameters of an action. Every error names its field within `params`."""
    try:
        return decode_json(b"{}" if isinstance(raw, UnsetType) else bytes(raw), into)
    except (MissingField, UnknownField) as error:
        raise type(error)(f"params.{error.field}") from None
    except BadInput as error:
        raise BadInput("params" if error.field == "body" else f"params.{error.field}", error.expected) from None


def caller_of(request: ApiRequest, allowed: AllowedIds | None = None) -> JobCaller:
    caller = _operator(request)
    return JobCaller(
        request.actor,
        request.identities,
        request.allowed if allowed is None else allowed,
        caller.user_id if isinstance(caller, Person) else None,
        caller.key_id if isinstance(caller, ApiKeyCaller) else None,
    )


def _operator(request: ApiRequest) -> Operator:
    assert isinstance(request.caller, Operator)  # noqa: S101 — access control admits no other caller
    return request.caller


def check_filter(filters: msgspec.Struct, *, is_all: bool) -> None:
    """Refuse an empty filter, unless everything is meant."""
    is_empty = filters == type(filters)()
    if is_empty and not is_all:
        raise BadInput("filter", "at least one field, or all: true for everything that you may change")
    if is_all and not is_empty:
        raise BadInput("all", "either a filter or all: true")


def _create(
    conn: Connection, request: JobRequest, total: int, idempotent: IdempotentRequest, response_format: ResponseFormat
) -> IdempotentResult:
    return stored_responses.run_once(
        conn, idempotent, lambda: response_format.success(jobs.create(conn, request, total), ACCEPTED).body
    )
