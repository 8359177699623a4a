"""Routes that collectors call: the application's way to the same poll and ACKs that the fast lane serves."""

from functools import partial

from restante.commands.acks.ack_schema import AckBody, ExtendBody, parse_ack_or_error
from restante.commands.acks.ack_service import AckService
from restante.commands.acks.acks import AckResponse
from restante.commands.dispatch.claims import ClaimRequest
from restante.commands.dispatch.extend_lease import LeaseExtension
from restante.commands.dispatch.poll_response import CommandPollResponse
from restante.commands.polling.poll import LIMIT_DEFAULT, LIMIT_MAX, WAIT_MAX_SECONDS, CollectorPoll, CommandPoll, Reply
from restante.commands.response_format import RESPONSE_FORMAT
from restante.core.decoding import INT64_MAX, parse_int
from restante.web.errors.error_responses import result_response
from restante.web.long_poll import long_poll
from restante.web.request import ApiRequest
from restante.web.response import ApiResponse, json_response
from restante.web.routes import Access, Query, ResponseInfo, Route, RouteGroup

_to_response = partial(result_response, RESPONSE_FORMAT)

_LIMIT = Query(
    "limit",
    "Maximum number of commands.",
    {"type": "integer", "minimum": 1, "maximum": LIMIT_MAX, "default": LIMIT_DEFAULT},
)
_WAIT = Query(
    "wait",
    "How many seconds to wait for a command if there is none.",
    {"type": "integer", "minimum": 0, "maximum": WAIT_MAX_SECONDS, "default": 0},
)
_ZONE = Query(
    "zone_id", "Only commands of this zone of the site.", {"type": "integer", "minimum": 1, "maximum": INT64_MAX}
)
_ACK = {"status": "succeeded", "result_code": 0, "message": "restarted", "executed_at": "2026-01-18T10:05:00Z"}


class CollectorRoutes:
    def __init__(self, poll: CommandPoll, acks: AckService) -> None:
        self._poll = poll
        self._acks = acks

    def routes(self) -> list[Route]:
        group = RouteGroup("collector", RESPONSE_FORMAT, prefix="/api/edge/v1/commands", errors=(400, 403, 503))
        errors = (404, 409, 410, 413, 415, 429)
        poll = group.get(
            "/poll",
            self.poll,
            Access.collector,
            "Poll for commands",
            query=(_LIMIT, _WAIT, _ZONE),
            responses=(ResponseInfo(200, CommandPollResponse),),
        )
        ack = group.post(
            "/{command_id}/ack",
            self.ack,
            Access.collector,
            "Acknowledge a command",
            errors=errors,
            examples=(_ACK,),
            responses=(ResponseInfo(200, AckResponse),),
        )
        extend = group.post(
            "/{command_id}/extend",
            self.extend,
            Access.collector,
            "Extend a command's lease",
            errors=errors,
            examples=({"lease_seconds": 120},),
            responses=(ResponseInfo(200, LeaseExtension),),
        )
        return [poll, ack, extend]

    async def poll(self, request: ApiRequest) -> ApiResponse:
        """The site's commands that can be dispatched now, each under its own lease: signed, with the nonce and the
        attempt that its ACK must name. With `wait`, the response comes when there is a command or the time is over."""
        limit = request.query_int("limit", LIMIT_DEFAULT, 1, LIMIT_MAX)
        wait = request.query_int("wait", 0, 0, WAIT_MAX_SECONDS)
        zone = request.query_text("zone_id")
        zone_id = None if zone is None else parse_int("zone_id", zone, 1, INT64_MAX)
        if request.http.method == "HEAD":
            # The response has no body: a command would be leased to a collector that never sees it.
            return json_response(b"")
        claim_request = ClaimRequest(request.collector, zone_id, limit)

        def start(reply: Reply) -> CollectorPoll:
            return self._poll.start(claim_request, wait > 0, reply)

        return await long_poll(request.http, self._poll, start, wait, _to_response)

    async def ack(self, request: ApiRequest, body: AckBody) -> AckResponse:
        """Report the outcome of a command: succeeded, failed, deferred, rejected or running. A repeated ACK of the same
        attempt gets `replayed` and changes nothing. An ACK from a collector that does not hold the lease is refused."""
        ack = parse_ack_or_error(body, request.raw_body)
        return await self._acks.apply(request.collector, request.path_text("command_id"), ack)

    async def extend(self, request: ApiRequest, body: ExtendBody) -> ApiResponse:
        """Extend the lease of a command, for work that takes longer. Only its holder can, and only before it ends."""
        return RESPONSE_FORMAT.success(
            await self._acks.extend(request.collector, request.path_text("command_id"), body)
        )
