"""The signer: turns published events into signed tokens, in the background, on all cores.

    read a batch of unsigned rows ─▶ sign it in processes (no transaction) ─▶ one write: store where still unsigned
                      └─ meanwhile the next batch is read; its jobs follow in the same queue ─▶ stored after this one

Every client gets a share of each batch (`fair_batching`), and its events are signed in the order of publishing. A token
is stored only where the row is still unsigned, so a second signer, on another node or after a crash, changes nothing.
Nodes that share a database lease the rows they sign (`signing_leases`) to share the work; an expired lease costs CPU
time and nothing else.

Invariants:
- No token of a withdrawn key is stored.
- Events whose key cannot be opened are logged and do not hold back events of other algorithms.
"""

import asyncio
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import ceil

import msgspec
import structlog

from restante.database.connection import Connection, Row
from restante.database.database import Database
from restante.database.errors import DatabaseError
from restante.database.queries import queries_beside
from restante.delivery.wakeup import Wakeup
from restante.events.inbox import inbox
from restante.events.inbox.inbox import SHARED_SIGNALS, SignedEvent
from restante.events.push.receivers import PushDue
from restante.events.signing import event_keys, fair_batching, jws, signing_leases
from restante.events.signing.event_keys import SealedEventKey
from restante.events.signing.fair_batching import RoundPosition
from restante.events.signing.jws import ALGORITHMS, SHARED_SIGNALS_ALGORITHM, SigningInfo
from restante.events.signing.signing_pool import SigningFailed, SigningPool
from restante.events.signing.signing_worker import KeyMessage, SigningJob
from restante.identity.master_key import MasterKey, MasterKeyError

SQL = queries_beside(__file__)
log = structlog.get_logger()

BATCH_ROWS = 512
# While the processes work on one batch, another one waits for them, and one is stored or read.
BATCHES_MAX = 3
JOB_ROWS_MAX = 64
# Of a batch that is not full: all processes share it.
JOBS_PER_PROCESS = 4
JOB_BYTES_MAX = 256 * 1024
INTERVAL_SECONDS = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class SignerOptions:
    """`issuer` is the `iss` claim; the other two are part of the Open Banking header."""

    issuer: str
    header_issuer: str
    trust_anchor: str


@dataclass(slots=True)
class SignerCounters:
    """Counts since the start, for the metrics."""

    signed: int = 0
    failed: int = 0
    cpu_seconds: float = 0.0


class UnsignedRow(msgspec.Struct, frozen=True):
    id: int
    client: int
    profile: str
    alg: str
    text: str


@dataclass(frozen=True, slots=True)
class SigningBatch:
    """Rows to sign, and the current key of each algorithm. `next_position` is where the next batch starts."""

    rows: list[UnsignedRow]
    keys: dict[str, SealedEventKey]
    lease: int | None
    issued_at_seconds: int
    next_position: RoundPosition


def read_batch(conn: Connection, position: RoundPosition) -> SigningBatch:
    """Return the next rows to sign, where no other node signs."""
    rows, next_position = fair_batching.next_batch(conn, position, BATCH_ROWS)
    return _batch(conn, rows, None, next_position)


def lease_batch(conn: Connection, position: RoundPosition) -> SigningBatch:
    """Return the next rows to sign, leased so that no other node gets them."""
    lease, rows, next_position = signing_leases.acquire(conn, position, BATCH_ROWS)
    return _batch(conn, rows, lease, next_position)


def store_signed(conn: Connection, signed: Sequence[SignedEvent], profile_of: dict[int, str], lease: int | None) -> int:
    """Make the tokens ready for polls, and due for push if the client has a receiver; return how many were stored."""
    withdrawn = {kid for kid in {event.kid for event in signed} if conn.one(SQL.usable_key, kid=kid) is None}
    kept = _mark_for_push(conn, [event for event in signed if event.kid not in withdrawn], profile_of)
    inbox.make_ready(conn, kept)
    if any(event.push_at is not None for event in kept):
        conn.add_commit_event(PushDue())
    signing_leases.release(conn, lease)
    return len(kept)


def count_unsigned(conn: Connection) -> int:
    """Return the number of events that wait to be signed."""
    row = conn.one(SQL.count_unsigned)
    return 0 if row is None else int(row["count"])


class Signer:
    """Signs all unsigned events whenever it is woken, and every few seconds."""

    def __init__(
        self,
        database: Database,
        master_key: MasterKey,
        pool: SigningPool,
        options: SignerOptions,
        *,
        is_shared: bool = False,
        interval_seconds: float = INTERVAL_SECONDS,
    ) -> None:
        self._database = database
        self._master_key = master_key
        self.pool = pool
        self._headers = TokenHeaders(options)
        self._is_shared = is_shared
        self._interval_seconds = interval_seconds
        self._opened: dict[str, KeyMessage] = {}
        self._wakeup = Wakeup()
        self.wake = self._wakeup.wake
        self.stop = self._wakeup.stop
        self.counters = SignerCounters()

    async def run(self) -> None:
        try:
            while not self._wakeup.is_stopping:
                await self._run_round()
                await self._wakeup.wait(self._interval_seconds)
        finally:
            await asyncio.to_thread(self.pool.close)

    async def run_once(self) -> int:
        """Sign all events that are unsigned now; return the number of stored tokens."""
        stored = 0
        position = fair_batching.ROUND_START
        under_way: deque[asyncio.Task[int]] = deque()
        try:
            while (batch := await self._next_batch(position)).rows:
                position = batch.next_position
                before = under_way[-1] if under_way else None
                under_way.append(asyncio.create_task(self._sign_and_store(batch, before)))
                if len(under_way) == BATCHES_MAX:
                    stored += await under_way.popleft()
            while under_way:
                stored += await under_way.popleft()
        finally:
            # After a failure the later batches fail, too: they are stored after the earlier ones or not at all.
            await asyncio.gather(*under_way, return_exceptions=True)
        return stored

    async def _run_round(self) -> None:
        try:
            await self.run_once()
        except (DatabaseError, SigningFailed) as error:
            log.error("signing events failed, retrying later", error=str(error))

    async def _next_batch(self, position: RoundPosition) -> SigningBatch:
        if not self._is_shared:
            return await self._database.read(read_batch, position)
        # Usually nothing is unsigned: this read saves the write that a lease needs.
        if not await self._database.read(fair_batching.has_more, position, BATCH_ROWS):
            return SigningBatch([], {}, None, 0, position)
        return await self._database.write(lease_batch, position)

    async def _sign_and_store(self, batch: SigningBatch, before: asyncio.Task[int] | None) -> int:
        """Sign the batch and store its tokens, after those of the batch before."""
        signed = await self._sign(batch)
        if before is not None:
            await before
        return await self._store(signed, batch)

    async def _store(self, signed: list[SignedEvent], batch: SigningBatch) -> int:
        profile_of = {row.id: row.profile for row in batch.rows}
        stored = await self._database.write(store_signed, signed, profile_of, batch.lease)
        self.counters.signed += stored
        return stored

    async def _sign(self, batch: SigningBatch) -> list[SignedEvent]:
        by_alg: dict[tuple[str, str], list[UnsignedRow]] = {}
        for row in batch.rows:
            by_alg.setdefault((_algorithm(row), row.profile), []).append(row)
        signed = await asyncio.gather(*(self._sign_alike(rows, alg, batch) for (alg, _profile), rows in by_alg.items()))
        return sorted(event for events in signed for event in events)

    async def _sign_alike(self, rows: list[UnsignedRow], alg: str, batch: SigningBatch) -> list[SignedEvent]:
        """Sign rows of one algorithm and profile."""
        try:
            key = await self._key(alg, batch.keys.get(alg))
        except MasterKeyError as error:
            self.counters.failed += len(rows)
            log.error(
                "event signing key cannot be opened, events stay unsigned", alg=alg, rows=len(rows), error=str(error)
            )
            return []
        header = self._headers.header(rows[0].profile, SigningInfo(alg, key.kid, batch.issued_at_seconds))
        parts = list(_split_into_jobs([(row, self._headers.payload(row)) for row in rows], self._job_rows(batch)))
        futures = [
            self.pool.submit(SigningJob(key.kid, header, [payload for _row, payload in part]), key) for part in parts
        ]
        replies = await asyncio.gather(*(asyncio.wrap_future(future) for future in futures))
        self.counters.cpu_seconds += sum(reply.cpu_seconds for reply in replies)
        return [
            SignedEvent(row.id, row.client, token, key.kid)
            for part, reply in zip(parts, replies, strict=True)
            for (row, _payload), token in zip(part, reply.tokens, strict=True)
        ]

    def _job_rows(self, batch: SigningBatch) -> int:
        if len(batch.rows) >= BATCH_ROWS:
            # A backlog: more batches follow, so every process has work, and large jobs cost less.
            return JOB_ROWS_MAX
        return min(JOB_ROWS_MAX, ceil(len(batch.rows) / (JOBS_PER_PROCESS * self.pool.size)))

    async def _key(self, alg: str, sealed: SealedEventKey | None) -> KeyMessage:
        """Return the opened private key; generate one if the algorithm has none."""
        if sealed is None:
            generated = await asyncio.to_thread(event_keys.generate, self._master_key, alg)
            sealed = await self._database.write(event_keys.store_first, generated)
            log.info("event signing key created", alg=alg, kid=sealed.kid)
        opened = self._opened.get(sealed.kid)
        if opened is None:
            opened = KeyMessage(sealed.kid, alg, event_keys.open_private_key(self._master_key, sealed))
            # Only the newest key of an algorithm is used again; older ones leave memory.
            self._opened = {kid: key for kid, key in self._opened.items() if key.alg != alg} | {sealed.kid: opened}
        return opened


class TokenHeaders:
    """Makes token headers and payloads from the settings."""

    def __init__(self, options: SignerOptions) -> None:
        self._options = options
        self._iss_prefix = b'{"iss":' + msgspec.json.encode(options.issuer) + b","

    def header(self, profile: str, info: SigningInfo) -> bytes:
        if profile == SHARED_SIGNALS:
            return jws.shared_signals_header(info)
        return jws.open_banking_header(info, self._options.header_issuer, self._options.trust_anchor)

    def payload(self, row: UnsignedRow) -> bytes:
        """Return the bytes to sign: the row's claims, or the unchanged claims of a token whose key was withdrawn."""
        if row.text.startswith("{"):
            return self._iss_prefix + row.text[1:].encode()
        return jws.payload_of(row.text)


def _batch(conn: Connection, rows: list[Row], lease: int | None, next_position: RoundPosition) -> SigningBatch:
    unsigned = [UnsignedRow(row["id"], row["client"], row["profile"], row["alg"], row["text"]) for row in rows]
    return SigningBatch(unsigned, _signing_keys(conn) if unsigned else {}, lease, conn.now_ms // 1000, next_position)


def _signing_keys(conn: Connection) -> dict[str, SealedEventKey]:
    keys = (event_keys.current_key(conn, alg) for alg in ALGORITHMS)
    return {key.alg: key for key in keys if key is not None}


def _algorithm(row: UnsignedRow) -> str:
    return SHARED_SIGNALS_ALGORITHM if row.profile == SHARED_SIGNALS else row.alg


def _split_into_jobs(rows: list[tuple[UnsignedRow, bytes]], job_rows: int) -> Iterator[list[tuple[UnsignedRow, bytes]]]:
    """Split the rows into jobs of so many rows, and of bounded bytes."""
    part: list[tuple[UnsignedRow, bytes]] = []
    size = 0
    for row in rows:
        if part and (len(part) == job_rows or size + len(row[1]) > JOB_BYTES_MAX):
            yield part
            part, size = [], 0
        part.append(row)
        size += len(row[1])
    if part:
        yield part


def _mark_for_push(
    conn: Connection, signed: Sequence[SignedEvent], profile_of: dict[int, str]
) -> Sequence[SignedEvent]:
    """Return the events, with those due for push now whose client has a receiver for the profile."""
    pushed = {
        (client, profile)
        for client, profile in {(event.client, profile_of[event.id]) for event in signed}
        if conn.one(SQL.has_receiver, client=client, profile=profile) is not None
    }
    if not pushed:
        return signed
    now_ms = conn.now_ms
    return [
        event._replace(push_at=now_ms) if (event.client, profile_of[event.id]) in pushed else event for event in signed
    ]
