"""The signer: turns rows that are published into tokens that can be handed out, off the request path, on all cores.

    take a batch of unsigned rows ─▶ sign it in processes (no transaction) ─▶ one write: store where still unsigned
                                                        └─ meanwhile the next batch is taken and signed ─▶ …

Clients take turns (`sign_turns.py`), and each one's rows are signed in the order of publishing. A token is signed once:
it is stored only where the row still is unsigned, so whoever comes second, on another node or after a crash, changes
nothing. Where several nodes share a database, each claims the rows it is going to sign (`sign_claims.py`), so that they
share the work; a claim that ran out costs CPU time and nothing else.

Must always hold: no token of a withdrawn key is stored. Rows whose key cannot be opened are logged, and hold back no
rows of other algorithms.
"""

import asyncio
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import msgspec
import structlog

from restante.database.connection import Connection, Row
from restante.database.database import Database
from restante.database.errors import DatabaseError
from restante.database.queries import queries_beside
from restante.delivery.alarm import Alarm
from restante.events import event_keys, inbox, jws, sign_claims, sign_turns
from restante.events.event_keys import SealedEventKey
from restante.events.inbox import SHARED_SIGNALS, SignedEvent
from restante.events.jws import ALGORITHMS, SHARED_SIGNALS_ALGORITHM, Signature
from restante.events.receivers import PushDue
from restante.events.sign_pool import SigningFailed, SignPool
from restante.events.sign_turns import Place
from restante.events.sign_worker import Job, KeyMessage
from restante.identity.master_key import MasterKey, MasterKeyError

SQL = queries_beside(__file__)
log = structlog.get_logger()

BATCH_ROWS = 1024
JOB_ROWS = 32
JOB_BYTES_MAX = 256 * 1024
INTERVAL_SECONDS = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class SignerOptions:
    """`issuer` is the tokens' `iss`; the other two are in Open Banking's header."""

    issuer: str = "http://127.0.0.1:8080"
    header_issuer: str = "http://127.0.0.1:8080"
    trust_anchor: str = "openbanking.org.uk"


@dataclass(slots=True)
class SignerTotals:
    """Counts since the start, for the metrics."""

    signed: int = 0
    failed: int = 0
    cpu_seconds: float = 0.0


class UnsignedRow(NamedTuple):
    id: int
    client: int
    profile: str
    alg: str
    text: str


class Batch(NamedTuple):
    rows: list[UnsignedRow]
    keys: dict[str, SealedEventKey]
    claim: int | None
    seconds: int
    # Where the next one begins.
    place: Place


def look(conn: Connection, place: Place) -> Batch:
    """The next rows to be signed, where nobody else signs."""
    rows, next_place = sign_turns.choose(conn, place, BATCH_ROWS)
    return _batch(conn, rows, None, next_place)


def claim(conn: Connection, place: Place) -> Batch:
    """As `look`, where others sign too: no two are given the same rows."""
    number, rows, next_place = sign_claims.take(conn, place, BATCH_ROWS)
    return _batch(conn, rows, number, next_place)


def store(conn: Connection, signed: Sequence[SignedEvent], profile_of: dict[int, str], claimed: int | None) -> int:
    """Let the tokens be handed out, and pushed to who has a receiver; how many were stored."""
    withdrawn = {kid for kid in {event.kid for event in signed} if conn.one(SQL.usable_key, kid=kid) is None}
    kept = _to_be_pushed(conn, [event for event in signed if event.kid not in withdrawn], profile_of)
    inbox.make_ready(conn, kept)
    if any(event.push_at is not None for event in kept):
        conn.announce(PushDue())
    sign_claims.release(conn, claimed)
    return len(kept)


def backlog(conn: Connection) -> int:
    """How many rows wait to be signed."""
    row = conn.one(SQL.count_unsigned)
    return 0 if row is None else int(row["count"])


class Signer:
    """Signs what is unsigned: when rung, and every few seconds in any case."""

    def __init__(
        self,
        database: Database,
        master_key: MasterKey,
        pool: SignPool,
        options: SignerOptions,
        *,
        is_shared: bool = False,
        interval_seconds: float = INTERVAL_SECONDS,
    ) -> None:
        self._database = database
        self._master_key = master_key
        self._pool = pool
        self._headers = Headers(options)
        self._is_shared = is_shared
        self._interval_seconds = interval_seconds
        self._opened: dict[str, KeyMessage] = {}
        self._alarm = Alarm()
        self.ring = self._alarm.ring
        self.stop = self._alarm.stop
        self.totals = SignerTotals()

    async def run(self) -> None:
        try:
            while not self._alarm.is_stopping:
                await self._run_round()
                await self._alarm.wait(self._interval_seconds)
        finally:
            await asyncio.to_thread(self._pool.close)

    async def run_once(self) -> int:
        """Sign everything that is unsigned now; how many tokens were stored."""
        done = 0
        place = sign_turns.START
        storing: asyncio.Task[int] | None = None
        try:
            while (batch := await self._take(place)).rows:
                place = batch.place
                signed = await self._sign(batch)
                if storing is not None:
                    done += await storing
                storing = asyncio.create_task(self._store(signed, batch))
        finally:
            if storing is not None:
                done += await storing
        return done

    async def _run_round(self) -> None:
        try:
            await self.run_once()
        except (DatabaseError, SigningFailed) as error:
            log.error("signing events failed, it is tried again", error=str(error))

    async def _take(self, place: Place) -> Batch:
        if not self._is_shared:
            return await self._database.read(look, place)
        # Most of the time there is nothing: a claim is a write, and looking is not.
        if not await self._database.read(sign_turns.is_any_left, place, BATCH_ROWS):
            return Batch([], {}, None, 0, place)
        return await self._database.write(claim, place)

    async def _store(self, signed: list[SignedEvent], batch: Batch) -> int:
        profile_of = {row.id: row.profile for row in batch.rows}
        stored = await self._database.write(store, signed, profile_of, batch.claim)
        self.totals.signed += stored
        return stored

    async def _sign(self, batch: Batch) -> list[SignedEvent]:
        by_alg: dict[tuple[str, str], list[UnsignedRow]] = {}
        for row in batch.rows:
            by_alg.setdefault((_algorithm(row), row.profile), []).append(row)
        signed = await asyncio.gather(*(self._sign_alike(rows, alg, batch) for (alg, _profile), rows in by_alg.items()))
        return sorted(event for events in signed for event in events)

    async def _sign_alike(self, rows: list[UnsignedRow], alg: str, batch: Batch) -> list[SignedEvent]:
        """Sign rows of one algorithm and form."""
        try:
            key = await self._key(alg, batch.keys.get(alg))
        except MasterKeyError as error:
            self.totals.failed += len(rows)
            log.error("events not signed, their key cannot be opened", alg=alg, rows=len(rows), error=str(error))
            return []
        header = self._headers.of(rows[0].profile, Signature(alg, key.kid, batch.seconds))
        parts = list(_in_jobs([(row, self._headers.payload(row)) for row in rows]))
        futures = [self._pool.submit(Job(key.kid, header, [payload for _row, payload in part]), key) for part in parts]
        replies = await asyncio.gather(*(asyncio.wrap_future(future) for future in futures))
        self.totals.cpu_seconds += sum(reply.cpu_seconds for reply in replies)
        return [
            SignedEvent(row.id, row.client, token, key.kid)
            for part, reply in zip(parts, replies, strict=True)
            for (row, _payload), token in zip(part, reply.tokens, strict=True)
        ]

    async def _key(self, alg: str, sealed: SealedEventKey | None) -> KeyMessage:
        """The private key, opened; made if the algorithm has none yet."""
        if sealed is None:
            made = await asyncio.to_thread(event_keys.make, self._master_key, alg)
            sealed = await self._database.write(event_keys.store_first, made)
            log.info("made an event signing key", alg=alg, kid=sealed.kid)
        found = self._opened.get(sealed.kid)
        if found is None:
            found = KeyMessage(sealed.kid, alg, event_keys.opened(self._master_key, sealed))
            # Only the newest of an algorithm is used again.
            self._opened = {kid: key for kid, key in self._opened.items() if key.alg != alg} | {sealed.kid: found}
        return found


class Headers:
    """What the settings say of tokens: their header, and who issues them."""

    def __init__(self, options: SignerOptions) -> None:
        self._options = options
        self._issued_by = b'{"iss":' + msgspec.json.encode(options.issuer) + b","

    def of(self, profile: str, signature: Signature) -> bytes:
        if profile == SHARED_SIGNALS:
            return jws.shared_signals_header(signature)
        return jws.open_banking_header(signature, self._options.header_issuer, self._options.trust_anchor)

    def payload(self, row: UnsignedRow) -> bytes:
        """What is signed of a row: its claims, or those of a token whose key was withdrawn, as they were."""
        if row.text.startswith("{"):
            return self._issued_by + row.text[1:].encode()
        return jws.payload_of(row.text)


def _batch(conn: Connection, rows: list[Row], claimed: int | None, place: Place) -> Batch:
    unsigned = [UnsignedRow(*(row[column] for column in UnsignedRow._fields)) for row in rows]
    return Batch(unsigned, _signing_keys(conn) if unsigned else {}, claimed, conn.now_ms // 1000, place)


def _signing_keys(conn: Connection) -> dict[str, SealedEventKey]:
    found = (event_keys.signing(conn, alg) for alg in ALGORITHMS)
    return {key.alg: key for key in found if key is not None}


def _algorithm(row: UnsignedRow) -> str:
    return SHARED_SIGNALS_ALGORITHM if row.profile == SHARED_SIGNALS else row.alg


def _in_jobs(rows: list[tuple[UnsignedRow, bytes]]) -> Iterator[list[tuple[UnsignedRow, bytes]]]:
    """Portions for the processes, bounded in rows and in bytes."""
    part: list[tuple[UnsignedRow, bytes]] = []
    size = 0
    for row in rows:
        if part and (len(part) == JOB_ROWS or size + len(row[1]) > JOB_BYTES_MAX):
            yield part
            part, size = [], 0
        part.append(row)
        size += len(row[1])
    if part:
        yield part


def _to_be_pushed(conn: Connection, signed: Sequence[SignedEvent], profile_of: dict[int, str]) -> Sequence[SignedEvent]:
    """The same, to be pushed now where the client has a receiver for the profile."""
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
