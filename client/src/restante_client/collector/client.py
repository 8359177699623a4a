"""The client of a collector.

    poll ─▶ signature, nonce, attempt ─▶ executed before? ─▶ lease still held? ─▶ execute ─▶ ACK in the spool ─▶ flush

What a collector does with a command that it has executed before, in an earlier attempt:

    the earlier result              what is reported now
    succeeded or rejected           the same result again: the server has not got it
    failed or deferred              the command is executed again: it is a retry
    unknown, the program had ended  skipped, DUPLICATE_IGNORED: the server records that the outcome is unknown
"""

from __future__ import annotations

import gzip
import json
import logging
from collections.abc import Awaitable, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, Callable, Optional, Union

from restante_client.calls import TIMEOUT_SECONDS, decode
from restante_client.clients import BlockingClient, Client, blocking_runtime
from restante_client.collector.models import DEFERRED, FAILED, Command, Result, command_of
from restante_client.collector.signatures import is_genuine, sign
from restante_client.collector.store import ACK, SAFETY, TELEMETRY, CollectorStore, Report
from restante_client.errors import ResponseError, Unauthorized, Unavailable, Unreachable
from restante_client.pacing import Backoff
from restante_client.runtime import Runtime, blocking, steady_seconds

BASE = "api/edge/v1/"
DUPLICATE = {"status": "skipped", "result_code": 2, "message": "DUPLICATE_IGNORED"}
UNVERIFIED = {"status": DEFERRED, "result_code": "SIGNATURE_INVALID", "message": "the signature is not valid here"}
TELEMETRY_SCHEMA = "telemetry_envelope.v1"
TELEMETRY_RECORDS_MAX = 1000
SAFETY_EVENTS_MAX = 500
# These refusals of an ACK are about the credentials of the collector, not about the ACK.
UNAUTHORIZED_CODE = "UNAUTHORIZED"

log = logging.getLogger("restante_client.collector")

Execute = Callable[[Command], Union[Awaitable[Result], Result]]


@dataclass(frozen=True)
class CollectorOptions:
    """How a collector works.

    `secrets`: the secret of this collector; during a rotation the new and the old one. `spool_key`: 32 bytes that
    encrypt waiting reports on disk. `is_signature_required` off accepts commands of a server that signs nothing.
    `http`: options of httpx, such as `verify`, `proxy`, `headers` and `cookies`.
    """

    secrets: Sequence[str] = ()
    is_signature_required: bool = True
    is_signing_acks: bool = False
    timeout_seconds: float = TIMEOUT_SECONDS
    limit: int = 5
    wait_seconds: int = 25
    spool_bytes_max: int = 64 * 1024 * 1024
    spool_age_seconds_max: float = 7 * 86_400.0
    spool_key: Optional[bytes] = None
    http: Optional[dict[str, Any]] = None

    def __repr__(self) -> str:
        return f"CollectorOptions(limit={self.limit}, is_signature_required={self.is_signature_required})"


DEFAULTS = CollectorOptions()


class CollectorClient(Client):
    """A collector, for programs with asyncio.

    options = CollectorOptions(secrets=[secret])
    async with CollectorClient("https://restante.example", token, Path("/var/lib/collector"), options) as collector:
        await collector.run(execute)
    """

    _store: CollectorStore

    def __init__(
        self,
        url: str,
        token: str,
        folder: Path,
        options: CollectorOptions = DEFAULTS,
        *,
        runtime: Runtime | None = None,
    ) -> None:
        if options.is_signature_required and not options.secrets:
            raise ValueError("secrets: expected the collector's secret; or set is_signature_required to False")
        super().__init__(url, options.timeout_seconds, options.http, runtime)
        self._store = CollectorStore(
            folder,
            spool_bytes_max=options.spool_bytes_max,
            spool_age_seconds_max=options.spool_age_seconds_max,
            key=options.spool_key,
        )
        self._token = token
        self._options = options

    def __repr__(self) -> str:
        return f"{type(self).__name__}({str(self._store.state.folder)!r})"

    @property
    def store(self) -> CollectorStore:
        """The stored state of this collector."""
        return self._store

    # Commands

    async def poll(self, wait_seconds: int = 0, limit: Optional[int] = None) -> list[Command]:
        """Poll once. Return the commands that are genuine and new.

        A command with a wrong signature is deferred, so that it is not lost if the reason is a new secret. A replayed
        command is dropped.
        """
        query: dict[str, Any] = {"limit": limit or self._options.limit}
        if wait_seconds:
            query["wait"] = wait_seconds
        response = await self._caller.call(
            "GET", BASE + "commands/poll", token=self._token, query=query, more_seconds=wait_seconds
        )
        received = steady_seconds()
        body = decode(response, dict)
        rows = body.get("commands")
        if not isinstance(rows, list):
            raise Unreachable("the response to a poll has no list of commands")
        commands = [command_of(row, body.get("server_time", ""), received) for row in rows]
        return [command for command in commands if self._is_accepted(command)]

    def _is_accepted(self, command: Command) -> bool:
        is_signed = command.fields.get("signature") is not None
        if (is_signed or self._options.is_signature_required) and not is_genuine(command.fields, self._options.secrets):
            log.error("refused a command: its signature is not valid", extra={"command_id": command.command_id})
            self._store.finish(command, _ack(command, UNVERIFIED), is_executed=False)
            return False
        if not self._store.accept(command):
            log.error(
                "dropped a command: its nonce or attempt was seen before", extra={"command_id": command.command_id}
            )
            return False
        return True

    async def extend(self, command: Command, seconds: int) -> None:
        """Lengthen the lease of a command that takes long. Raises `Conflict` if this collector no longer holds it."""
        body = {"lease_seconds": seconds, "nonce": command.nonce}
        await self._caller.call("POST", f"{BASE}commands/{command.command_id}/extend", token=self._token, json=body)

    async def acknowledge(self, command: Command, result: Result) -> None:
        """Store the result of a command and its ACK. `flush` sends it, now or when the server is there again."""
        ack = _ack(command, result.body(datetime.now(timezone.utc)))
        self._store.finish(command, ack, is_executed=True)

    async def carry_out(self, command: Command, execute: Execute) -> None:
        """Execute a command, unless it was executed before or its lease has ended, and store its ACK."""
        earlier = self._store.earlier_execution(command.command_id)
        if earlier is not None and not self._is_repeatable(earlier.result):
            body = DUPLICATE if earlier.result is None else earlier.result
            self._store.finish(command, _ack(command, body), is_executed=False)
            return
        if command.lease_seconds_left <= 0:
            log.warning("did not execute a command: its lease has ended", extra={"command_id": command.command_id})
            return
        self._store.start(command)
        try:
            result = await self._runtime.call(execute, command)
            if not isinstance(result, Result):
                raise TypeError(f"expected a Result, not {type(result).__name__}")
        except Exception as error:
            log.exception("a command failed", extra={"command_id": command.command_id})
            result = Result(FAILED, type(error).__name__, "the program of the collector failed")
        await self.acknowledge(command, result)

    @staticmethod
    def _is_repeatable(earlier_ack: Optional[dict[str, Any]]) -> bool:
        return earlier_ack is not None and earlier_ack["status"] in (FAILED, DEFERRED)

    async def run(self, execute: Execute) -> None:
        """Poll, execute and acknowledge until `stop` is called. `Unauthorized` ends it."""
        backoff = Backoff()
        while not self._is_stopped:
            try:
                await self.flush()
                commands = await self.poll(self._options.wait_seconds)
            except (Unavailable, Unreachable) as error:
                await self._runtime.sleep(backoff.failed(getattr(error, "retry_after_seconds", None)))
                continue
            backoff.succeeded()
            for command in commands:
                await self.carry_out(command, execute)
                await self._flush_if_possible()
            self._store.forget_old()

    async def _flush_if_possible(self) -> None:
        try:
            await self.flush()
        except (Unavailable, Unreachable) as error:
            log.warning("reports wait in the spool: %s", error)

    # Reports

    async def add_telemetry(self, records: Sequence[dict[str, Any]]) -> None:
        """Put records into the spool: `miner_id`, `ts` and measurements."""
        for start in range(0, len(records), TELEMETRY_RECORDS_MAX):
            part = list(records[start : start + TELEMETRY_RECORDS_MAX])
            body = {"schema": TELEMETRY_SCHEMA, "record_count": len(part), "records": part}
            self._add(TELEMETRY, body)

    async def add_safety_events(self, events: Sequence[dict[str, Any]]) -> None:
        """Put events into the spool: `miner_id`, `action` and `ts`; optional `reason`, `temp_max`, `snapshot_json`."""
        for start in range(0, len(events), SAFETY_EVENTS_MAX):
            self._add(SAFETY, {"events": list(events[start : start + SAFETY_EVENTS_MAX])})

    def _add(self, kind: str, body: dict[str, Any]) -> None:
        dropped = self._store.add(kind, body)
        if dropped:
            log.error("the spool is full: dropped the oldest reports", extra={"dropped": dropped})

    async def flush(self) -> int:
        """Send what waits in the spool: ACKs first, then safety events, then telemetry. Return how many were sent.

        A report that the server will never accept is dropped and logged. If the server cannot be reached, or the token
        is refused, the rest stays in the spool and the error is raised.
        """
        sent = 0
        while True:
            # An ACK that is added meanwhile is sent next, however much telemetry waits.
            report = self._store.next_report()
            if report is None:
                return sent
            await self._send(report)
            self._store.remove(report)
            sent += 1

    async def _send(self, report: Report) -> None:
        try:
            if report.kind == ACK:
                body = self._signed(report.body)
                await self._caller.call("POST", f"{BASE}commands/{report.command_id}/ack", token=self._token, json=body)
            else:
                path = "events/safety/batch" if report.kind == SAFETY else "telemetry/batch"
                response = await self._caller.call(
                    "POST",
                    BASE + path,
                    token=self._token,
                    content=gzip.compress(json.dumps(report.body).encode(), mtime=0),
                    headers={"Content-Type": "application/json", "Content-Encoding": "gzip"},
                )
                failed = decode(response, dict).get("failed", 0)
                if failed:
                    log.error("the server refused parts of a report", extra={"kind": report.kind, "failed": failed})
        except Unavailable:
            raise
        except Unauthorized as error:
            if error.code == UNAUTHORIZED_CODE or report.kind != ACK:
                raise
            log.error("the server refused an ACK: %s", error)
        except ResponseError as error:
            log.error("the server refused a report: %s", error)

    def _signed(self, ack: dict[str, Any]) -> dict[str, Any]:
        if not self._options.is_signing_acks or not self._options.secrets:
            return ack
        return {**ack, "signature": sign(ack, self._options.secrets[0])}


class BlockingCollectorClient(BlockingClient[CollectorClient]):
    """A collector, for programs without asyncio: the same methods as `CollectorClient`."""

    def __init__(
        self,
        url: str,
        token: str,
        folder: Path,
        options: CollectorOptions = DEFAULTS,
        *,
        runtime: Runtime | None = None,
    ) -> None:
        runtime = blocking_runtime(runtime, options.http)
        super().__init__(CollectorClient(url, token, folder, options, runtime=runtime))

    @property
    def store(self) -> CollectorStore:
        return self.client.store

    poll = blocking(CollectorClient.poll)
    extend = blocking(CollectorClient.extend)
    acknowledge = blocking(CollectorClient.acknowledge)
    carry_out = blocking(CollectorClient.carry_out)
    run = blocking(CollectorClient.run)
    add_telemetry = blocking(CollectorClient.add_telemetry)
    add_safety_events = blocking(CollectorClient.add_safety_events)
    flush = blocking(CollectorClient.flush)


def _ack(command: Command, body: dict[str, Any]) -> dict[str, Any]:
    return {**body, "nonce": command.nonce, "attempt": command.attempt}
