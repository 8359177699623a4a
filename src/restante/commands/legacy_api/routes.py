"""Routes of the older collector API: the same poll, ACKs and telemetry as /api/edge/v1, with other paths and bodies.

    POST /api/collector/upload                  telemetry
    GET  /api/collector/commands/pending        a poll that does not wait
    POST /api/collector/commands/{id}/result    an ACK

Leases, rate limits, the checks of an ACK, the audit trail and the metrics are those of the newer API: this package only
translates bodies. The collector's token may come as `X-Collector-Key`.
"""

from functools import partial

import msgspec
from msgspec import UNSET, UnsetType

from restante.commands.acks.ack_schema import AckBody, ParsedAck, Text, parse_ack_or_error
from restante.commands.acks.ack_service import AckService
from restante.commands.dispatch.claims import ClaimRequest
from restante.commands.dispatch.poll_response import CommandPollResponse
from restante.commands.legacy_api.pending_commands import PendingResponse, pending_response
from restante.commands.polling.poll import LIMIT_DEFAULT, CollectorPoll, CommandPoll, Reply
from restante.commands.response_format import RESPONSE_FORMAT
from restante.commands.telemetry.ingest import TelemetryIngest
from restante.commands.telemetry.routes_telemetry import (
    UNPACKED_BYTES_MAX,
    TelemetryResponse,
    ingest_body,
    reported_options,
)
from restante.core.errors import BadInput
from restante.web.content_coding import read_batch_body
from restante.web.errors.error_responses import result_response
from restante.web.long_poll import long_poll
from restante.web.request import ApiRequest
from restante.web.response import ApiResponse, json_response
from restante.web.routes import Access, ResponseInfo, Route, RouteGroup

PREFIX = "/api/collector"
_RECORD = {
    "miner_id": "1",
    "timestamp": "2026-01-18T10:05:00",
    "hashrate_ghs": 110200.0,
    "temperature_max": 80.5,
    "fan_speeds": [4200, 4080],
}


class UploadResponse(TelemetryResponse):
    """A collector reads `error` and `message` if `success` is false."""

    error: str | UnsetType = UNSET
    message: str | UnsetType = UNSET


class ResultBody(AckBody):
    """The result of a command: an ACK, with `result` as another name of its message.

    Unknown fields are ignored: older collectors send more, for example `miner_id` and `duration_ms`.
    """

    result: Text | None = None


class ResultResponse(msgspec.Struct, omit_defaults=True):
    """The response to an ACK, and `success`. A collector reads only the status code."""

    success: bool
    status: str
    command_id: str
    command_status: str
    replayed: bool
    code: str | None = None
    will_retry: bool | None = None
    next_attempt_at: str | None = None


class LegacyRoutes:
    def __init__(self, poll: CommandPoll, acks: AckService, ingest: TelemetryIngest, body_bytes_max: int) -> None:
        self._poll = poll
        self._acks = acks
        self._ingest = ingest
        self._body_bytes_max = body_bytes_max

    def routes(self) -> list[Route]:
        group = RouteGroup("older collectors", RESPONSE_FORMAT, prefix=PREFIX, errors=(400, 403, 503))
        access = Access.older_collector
        reported = reported_options(_RECORD)
        reported["errors"] = (413, 415, 429)
        return [
            group.post("/upload", self.upload, access, "Report telemetry", **reported),
            group.get(
                "/commands/pending",
                self.pending,
                access,
                "Poll for commands",
                responses=(ResponseInfo(200, PendingResponse),),
            ),
            group.post(
                "/commands/{command_id}/result",
                self.result,
                access,
                "Report the result of a command",
                errors=(404, 409, 410, 413, 415, 429),
                examples=({"status": "completed", "result_code": 0, "result_message": "done"},),
                responses=(ResponseInfo(200, ResultResponse),),
            ),
        ]

    async def upload(self, request: ApiRequest) -> UploadResponse:
        """The body is that of `POST /api/edge/v1/telemetry/batch`: a list of records, usually gzip. If no record was
        valid, `success` is false and the collector sends the list again later."""
        body = await read_batch_body(request.http, self._body_bytes_max, UNPACKED_BYTES_MAX)
        response = await ingest_body(self._ingest, request.collector, body)
        upload = UploadResponse(**{name: getattr(response, name) for name in response.__struct_fields__})
        if not response.success and not isinstance(response.errors, UnsetType):
            upload.error = "INVALID_REQUEST"
            upload.message = f"no record was valid; the first error: {response.errors[0].error}"
        return upload

    async def pending(self, request: ApiRequest) -> ApiResponse:
        """The site's commands that can be dispatched now, each under its own lease, in the form that older collectors
        read. They are not signed."""
        if request.http.method == "HEAD":
            # The response has no body: a command would be leased to a collector that never sees it.
            return json_response(b"")
        claim_request = ClaimRequest(request.collector, None, LIMIT_DEFAULT)

        def start(reply: Reply) -> CollectorPoll:
            return self._poll.start(claim_request, False, reply)

        return await long_poll(request.http, self._poll, start, 0, _to_response)

    async def result(self, request: ApiRequest, body: ResultBody) -> ResultResponse:
        """An ACK: the same statuses, checks and effects as `POST /api/edge/v1/commands/{command_id}/ack`."""
        ack = parse_result(body, request.raw_body)
        response = await self._acks.apply(request.collector, request.path_text("command_id"), ack)
        return ResultResponse(True, **msgspec.structs.asdict(response))


def _to_response(result: CommandPollResponse | BaseException) -> ApiResponse:
    return _written(pending_response(result) if isinstance(result, CommandPollResponse) else result)


_written = partial(result_response, RESPONSE_FORMAT)


def parse_result(body: ResultBody, raw: bytes) -> ParsedAck | BadInput:
    """The result as an ACK, or the error that refuses it if the collector may acknowledge the command at all."""
    if body.result is not None:
        other = body.result_message if body.message is None else body.message
        if other not in (None, body.result):
            return BadInput("result", "the same text as the message, which is also present")
        body.message = body.result
    return parse_ack_or_error(body, raw)
