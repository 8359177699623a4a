"""Telemetry: collectors send it, plain or gzip; operators look at the newest records and the last few behind them."""

import asyncio
from functools import partial

import msgspec
from msgspec import UNSET, UnsetType

from restante.commands import telemetry
from restante.commands.ingest import Ingest
from restante.commands.telemetry import LatestRecord, MinerTelemetry
from restante.commands.telemetry_records import RecordError, parse_batch
from restante.commands.wire import SHAPE, iso
from restante.core.errors import BadInput
from restante.database.database import Database
from restante.web.ask import BODY_BYTES_MAX, INT64_MAX, Ask
from restante.web.content_coding import read_json_body
from restante.web.paging import PAGE_QUERY, Page, window_of
from restante.web.routes import Access, Query, Route

UNPACKED_BYTES_MAX = 8 * 1024 * 1024
HISTORY_LIMIT_MAX = 10_000
SITE_QUERY = Query("site_id", "of which site", {"type": "integer", "minimum": 1})
_HISTORY_QUERY = Query("limit", "how many past records at most", {"type": "integer", "minimum": 0})


class TelemetryAnswer(msgspec.Struct):
    """`success` is false where no record was good."""

    success: bool
    processed: int
    failed: int
    received_at: str
    errors: list[RecordError] | UnsetType = UNSET


class TelemetryRoutes:
    def __init__(self, database: Database, ingest: Ingest, body_bytes_max: int = BODY_BYTES_MAX) -> None:
        self._database = database
        self._ingest = ingest
        self._body_bytes_max = body_bytes_max

    def routes(self) -> list[Route]:
        take = partial(Route, shape=SHAPE, tag="collector", refusals=(400, 413, 415))
        look = partial(Route, shape=SHAPE, tag="telemetry")
        base = "/api/edge/v1"
        return [
            take("POST", f"{base}/telemetry/batch", self.take, Access.collector, "Report telemetry"),
            take("POST", f"{base}/telemetry/ingest", self.take, Access.collector, "Report telemetry"),
            look(
                "GET",
                f"{base}/admin/telemetry",
                self.latest,
                Access.read,
                "The newest record of each miner of a site",
                query=(SITE_QUERY, *PAGE_QUERY),
            ),
            look(
                "GET",
                f"{base}/admin/telemetry/{{miner_id}}",
                self.of_miner,
                Access.read,
                "A miner's newest record and the last few before it, newest first",
                query=(_HISTORY_QUERY,),
            ),
        ]

    async def take(self, ask: Ask) -> TelemetryAnswer:
        """The body is a list of records, or an envelope {schema: "telemetry_envelope.v1", site_id, record_count,
        records}; plain, or packed with Content-Encoding: gzip. A record is {miner_id, ts} and measurements under any
        name. Good records are taken whatever the others are; `errors` names the others by their index."""
        collector = ask.collector
        body = await read_json_body(ask.request, self._body_bytes_max, UNPACKED_BYTES_MAX)
        batch = await asyncio.to_thread(parse_batch, body, collector.site_id)
        taken = await self._ingest.take(collector.site_id, batch)
        failed = len(taken.errors)
        return TelemetryAnswer(
            success=taken.processed > 0 or not failed,
            processed=taken.processed,
            failed=failed,
            received_at=iso(taken.received_at),
            errors=taken.errors or UNSET,
        )

    async def latest(self, ask: Ask) -> Page[LatestRecord]:
        site_id = ask.query_int("site_id", 0, 1, INT64_MAX)
        if not site_id:
            raise BadInput("site_id", "a value, it is required")
        return await self._database.read(telemetry.latest_page, site_id, window_of(ask))

    async def of_miner(self, ask: Ask) -> MinerTelemetry:
        limit = ask.query_int("limit", self._ingest.keep, 0, HISTORY_LIMIT_MAX)
        return await self._database.read(telemetry.of_miner, ask.path_id("miner_id"), limit, self._ingest.keep)
