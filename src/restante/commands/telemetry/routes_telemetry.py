"""Routes for telemetry: collectors report it, plain or gzip; operators read the newest and the last records."""

import asyncio
from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from restante.commands.body_ids import Id
from restante.commands.response_format import RESPONSE_FORMAT
from restante.commands.telemetry import telemetry
from restante.commands.telemetry.ingest import TelemetryIngest
from restante.commands.telemetry.telemetry import LatestRecord, MinerTelemetry
from restante.commands.telemetry.telemetry_records import RecordError, parse_batch
from restante.core.decoding import INT64_MAX
from restante.core.errors import BadInput
from restante.core.iso_time import iso_whole_seconds
from restante.database.database import Database
from restante.database.paging import Page
from restante.identity.callers import CollectorCaller
from restante.identity.grants import Area
from restante.web.content_coding import read_batch_body
from restante.web.paging import PAGE_QUERY, page_request_of
from restante.web.request import ApiRequest
from restante.web.routes import Access, Query, RequestBody, Route, RouteGroup, RouteOptions

UNPACKED_BYTES_MAX = 8 * 1024 * 1024
HISTORY_LIMIT_MAX = 10_000
_SITE_ID = {"type": "integer", "minimum": 1, "maximum": INT64_MAX}
SITE_QUERY = Query("site_id", "only miners of this site", _SITE_ID, required=True)
MINER_KNOWN_QUERY = Query(
    "miner_known", "only miners that are registered at the site, or only others", {"type": "boolean"}
)
_MINER_SITE_QUERY = Query(
    "site_id", "the site that reported the miner; needed for a miner that is not registered", _SITE_ID
)
_HISTORY_QUERY = Query(
    "limit", "most past records to return", {"type": "integer", "minimum": 0, "maximum": HISTORY_LIMIT_MAX}
)
_RECORD = {"miner_id": 1, "ts": "2026-01-18T10:05:00Z", "temp_max": 80.5, "hashrate": 110.2}


# Only for the documentation: `telemetry_records` checks each record on its own.
TelemetryRecord = Annotated[
    dict[str, Any],
    Meta(
        description="One report of a miner: its time, and measurements under any name.",
        extra_json_schema={
            "properties": {"miner_id": {"type": ["integer", "string"]}, "ts": {"type": "string"}},
            "additionalProperties": True,
        },
    ),
]


class TelemetryEnvelope(msgspec.Struct):
    """Records with the site that they are from. Other members are ignored."""

    records: list[TelemetryRecord]
    schema: Literal["telemetry_envelope.v1"] | None = None
    site_id: Id | None = None
    record_count: int | None = None


class TelemetryResponse(msgspec.Struct):
    """`success` is false if no record was valid. `unknown_miner_records`: how many of the processed records are of
    miners that are not registered; missing if none is."""

    success: bool
    processed: int
    failed: int
    received_at: str
    errors: list[RecordError] | UnsetType = UNSET
    unknown_miner_records: int | UnsetType = UNSET


class TelemetryRoutes:
    def __init__(self, database: Database, ingest: TelemetryIngest, body_bytes_max: int) -> None:
        self._database = database
        self._ingest = ingest
        self._body_bytes_max = body_bytes_max

    def routes(self) -> list[Route]:
        collector = RouteGroup(
            "collector", RESPONSE_FORMAT, prefix="/api/edge/v1/telemetry", errors=(400, 413, 415, 429)
        )
        admin = RouteGroup("telemetry", RESPONSE_FORMAT, prefix="/api/edge/v1/admin/telemetry", area=Area.commands)
        reported = reported_options(_RECORD)
        newest = "List the newest record of each miner of a site"
        history = "Show a miner's newest record and its last records, newest first"
        return [
            collector.post("/batch", self.report, Access.collector, "Report telemetry", **reported),
            collector.post("/ingest", self.report, Access.collector, "Report telemetry", **reported),
            admin.get("", self.latest, Access.read, newest, query=(SITE_QUERY, MINER_KNOWN_QUERY, *PAGE_QUERY)),
            admin.get("/{miner_id}", self.show_miner, Access.read, history, query=(_HISTORY_QUERY, _MINER_SITE_QUERY)),
        ]

    async def report(self, request: ApiRequest) -> TelemetryResponse:
        """The body is a list of records, or an envelope {schema: "telemetry_envelope.v1", site_id, record_count,
        records}; plain, or compressed with Content-Encoding: gzip. A record is {miner_id, ts} and measurements under
        any name. Valid records are stored even if others are invalid; `errors` lists the invalid ones by index. Records
        of miners that are not registered yet are kept until they are."""
        body = await read_batch_body(request.http, self._body_bytes_max, UNPACKED_BYTES_MAX)
        return await ingest_body(self._ingest, request.collector, body)

    async def latest(self, request: ApiRequest) -> Page[LatestRecord]:
        site_id = request.query_int("site_id", 0, 1, INT64_MAX)
        if not site_id:
            raise BadInput("site_id", "a value, because it is required")
        page, miner_known = page_request_of(request), request.query_bool("miner_known")
        if site_id not in request.allowed:
            return Page([], None)
        return await self._database.read(telemetry.latest_page, site_id, page, miner_known)

    async def show_miner(self, request: ApiRequest) -> MinerTelemetry:
        limit = request.query_int("limit", self._ingest.history_records, 0, HISTORY_LIMIT_MAX)
        site_id = request.query_int("site_id", 0, 1, INT64_MAX) or None
        return await self._database.read(
            telemetry.read_miner,
            request.path_id("miner_id"),
            limit,
            self._ingest.history_records,
            site_id,
            request.allowed,
        )


def reported_options(record: dict[str, Any]) -> RouteOptions:
    """The documentation of a route that takes telemetry."""
    return RouteOptions(
        request_body=RequestBody(TelemetryEnvelope | list[TelemetryRecord]),
        examples=([record], {"schema": "telemetry_envelope.v1", "record_count": 1, "records": [record]}),
    )


async def ingest_body(ingest: TelemetryIngest, collector: CollectorCaller, body: bytes) -> TelemetryResponse:
    """Store the decompressed batch of a collector."""
    ingest.budgets.admit_telemetry(collector.device_id, len(body))
    batch = await asyncio.to_thread(parse_batch, body, collector.site_id)
    result = await ingest.accept(collector.site_id, batch)
    failed = len(result.errors)
    return TelemetryResponse(
        success=result.processed > 0 or not failed,
        processed=result.processed,
        failed=failed,
        received_at=iso_whole_seconds(result.received_at),
        errors=result.errors or UNSET,
        unknown_miner_records=result.unknown_count or UNSET,
    )
