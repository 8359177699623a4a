import asyncio
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from typing import cast

import pytest

from restante.database.database import Database
from restante.events.inbox.inbox import InboxChanged, SignedEvent
from restante.events.push import receivers
from restante.events.push.receivers import PushDue
from restante.events.signing import event_keys, signer
from restante.events.signing.fair_batching import ROUND_START
from restante.events.signing.signer import Signer
from restante.events.signing.signing_pool import SigningFailed, SigningPool
from restante.events.signing.signing_worker import KeyMessage, SignedTokens, SigningJob
from restante.identity.master_key import MasterKey
from tests.conftest import START_MS
from tests.events import inbox_fixture
from tests.events.publish_fixture import (
    MASTER,
    OPTIONS,
    SESSION_REVOKED,
    SUB,
    UPDATED,
    add_stream,
    header_of,
    inbox_rows,
    publish,
    set_alg,
    signer_of,
    verified_claims,
)

TIMEOUT_SECONDS = 60.0


@pytest.fixture(scope="module")
def pool() -> Iterator[SigningPool]:
    pool = SigningPool(2)
    yield pool
    pool.close()


@pytest.fixture(autouse=True)
def stored_key(database: Database) -> None:
    """Store a key of the default algorithm, because generating one in every test is slow."""
    database.write_now(event_keys.store_first, _PS256)


_PS256 = event_keys.generate(MASTER, "PS256")


def sign_all(database: Database, pool: SigningPool, **changed: bool) -> int:
    return asyncio.run(signer_of(database, pool, **changed).run_once())


def test_published_event_becomes_a_signed_token(database: Database, pool: SigningPool) -> None:
    tpp = database.write_now(inbox_fixture.add_client)
    [jti] = publish(database, tpp.client_id, txn="t-1", toe=7)
    commit_events: list[object] = []
    database.on_commit(commit_events.extend)
    assert sign_all(database, pool) == 1
    [row] = inbox_rows(database)
    assert (row["status"], row["kid"], row["push_at"]) == ("ready", _PS256.kid, None)
    assert verified_claims(database, row["text"]) == {
        "iss": "https://bank.example",
        "iat": START_MS // 1000,
        "jti": jti,
        "sub": SUB,
        "aud": tpp.client_id,
        "txn": "t-1",
        "toe": 7,
        "events": UPDATED,
    }
    header = header_of(row["text"])
    assert (header["alg"], header["typ"]) == ("PS256", "JOSE")
    assert header["http://openbanking.org.uk/iat"] == START_MS // 1000
    assert header["http://openbanking.org.uk/iss"] == OPTIONS.header_issuer
    assert header["http://openbanking.org.uk/tan"] == OPTIONS.trust_anchor
    assert commit_events == [InboxChanged(tpp.id)]


@pytest.mark.parametrize("alg", ["ES256", "EdDSA", "RS256"])
def test_token_has_the_clients_algorithm_and_its_key_is_created_on_demand(
    database: Database, pool: SigningPool, alg: str
) -> None:
    tpp = database.write_now(inbox_fixture.add_client)
    set_alg(database, tpp.id, alg)
    publish(database, tpp.client_id)
    assert sign_all(database, pool) == 1
    [row] = inbox_rows(database)
    assert verified_claims(database, row["text"])["aud"] == tpp.client_id
    assert header_of(row["text"])["alg"] == alg


def test_shared_signals_event_has_its_own_header_and_claims(database: Database, pool: SigningPool) -> None:
    receiver = database.write_now(inbox_fixture.add_client)
    add_stream(database, receiver.id, f'["{SESSION_REVOKED}"]')
    publish(database, receiver.client_id, events={SESSION_REVOKED: {}})
    sign_all(database, pool)
    [row] = inbox_rows(database)
    header = header_of(row["text"])
    assert (header["alg"], header["typ"]) == ("RS256", "secevent+jwt")
    assert "crit" not in header
    claims = verified_claims(database, row["text"])
    assert (claims["iss"], claims["sub_id"]["format"]) == ("https://bank.example", "uri")
    assert "sub" not in claims


def test_many_events_are_signed_in_several_batches(
    database: Database, pool: SigningPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(signer, "BATCH_ROWS", 7)
    tpps = [database.write_now(inbox_fixture.add_client) for _ in range(3)]
    jtis = [jti for _ in range(8) for jti in publish(database)]
    one = signer_of(database, pool)
    assert asyncio.run(one.run_once()) == len(jtis) == 24
    found = inbox_rows(database)
    assert [row["jti"] for row in found] == jtis
    assert {row["status"] for row in found} == {"ready"}
    assert [verified_claims(database, row["text"])["jti"] for row in found] == jtis
    assert one.counters.signed == 24
    assert one.counters.cpu_seconds > 0
    assert len(tpps) == 3


def test_single_event_does_not_wait_for_the_backlog_of_another_client(
    database: Database, pool: SigningPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(signer, "BATCH_ROWS", 8)
    busy, quiet = (database.write_now(inbox_fixture.add_client) for _ in range(2))
    jtis = [jti for _ in range(40) for jti in publish(database, busy.client_id)]
    late = publish(database, quiet.client_id)
    stored: list[list[str]] = []

    def on_commit_events(events: list[object]) -> None:
        if any(isinstance(event, InboxChanged) for event in events):
            stored.append([row["jti"] for row in inbox_rows(database) if row["status"] == "ready"])

    database.on_commit(on_commit_events)
    assert sign_all(database, pool) == 41
    # The single event is in the first batch; the backlog continues in order.
    assert stored[0] == jtis[:7] + late
    assert stored[-1] == jtis + late


class _ManagedPool:
    """Passes jobs on to a pool; the job of the first batch ends after that of the second one, or fails."""

    size = 1

    def __init__(self, pool: SigningPool, first_fails: bool = False) -> None:
        self._pool = pool
        self._first_fails = first_fails
        self._first: Future[SignedTokens] = Future()
        self._submitted = 0

    def submit(self, job: SigningJob, key: KeyMessage) -> "Future[SignedTokens]":
        self._submitted += 1
        signed = self._pool.submit(job, key)
        if self._submitted == 1:
            self._signed_first = signed
            return self._first
        if self._submitted == 2:
            signed.add_done_callback(self._end_first)
        return signed

    def _end_first(self, _second: "Future[SignedTokens]") -> None:
        if self._first_fails:
            self._first.set_exception(SigningFailed("no process"))
        else:
            self._signed_first.add_done_callback(lambda signed: self._first.set_result(signed.result()))


def test_batches_are_stored_in_order_if_a_later_one_is_signed_first(
    database: Database, pool: SigningPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(signer, "BATCH_ROWS", 2)
    tpp = database.write_now(inbox_fixture.add_client)
    jtis = [jti for _ in range(6) for jti in publish(database, tpp.client_id)]
    stored: list[list[str]] = []

    def on_commit_events(events: list[object]) -> None:
        if any(isinstance(event, InboxChanged) for event in events):
            stored.append([row["jti"] for row in inbox_rows(database) if row["status"] == "ready"])

    database.on_commit(on_commit_events)
    assert sign_all(database, cast(SigningPool, _ManagedPool(pool))) == 6
    assert stored == [jtis[:2], jtis[:4], jtis]


def test_batches_after_one_that_failed_are_not_stored(
    database: Database, pool: SigningPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(signer, "BATCH_ROWS", 2)
    tpp = database.write_now(inbox_fixture.add_client)
    for _ in range(6):
        publish(database, tpp.client_id)
    with pytest.raises(SigningFailed):
        sign_all(database, cast(SigningPool, _ManagedPool(pool, first_fails=True)))
    assert {row["status"] for row in inbox_rows(database)} == {"unsigned"}
    assert sign_all(database, pool) == 6


class _CountingPool:
    """Passes jobs on to a pool, and records how many rows they have."""

    def __init__(self, pool: SigningPool) -> None:
        self._pool = pool
        self.size = pool.size
        self.rows: list[int] = []

    def submit(self, job: SigningJob, key: KeyMessage) -> "Future[SignedTokens]":
        self.rows.append(len(job.payloads))
        return self._pool.submit(job, key)


@pytest.mark.parametrize(
    ("events", "rows_of_jobs"),
    [(1, [1]), (2, [1, 1]), (8, [1] * 8), (20, [3] * 6 + [2]), (16 * 8, [16] * 8), (65 * 8, [64] * 8 + [1] * 8)],
)
def test_every_process_gets_a_part_of_a_batch_that_is_not_full(
    database: Database, pool: SigningPool, events: int, rows_of_jobs: list[int]
) -> None:
    tpp = database.write_now(inbox_fixture.add_client)
    for _ in range(events):
        publish(database, tpp.client_id)
    counting = _CountingPool(pool)
    assert sign_all(database, cast(SigningPool, counting)) == events
    assert counting.rows == rows_of_jobs


def test_full_batch_has_large_jobs_however_many_processes_there_are(
    database: Database, pool: SigningPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(signer, "BATCH_ROWS", 128)
    tpp = database.write_now(inbox_fixture.add_client)
    for _ in range(128 + 32):
        publish(database, tpp.client_id)
    counting = _CountingPool(pool)
    counting.size = 8
    assert sign_all(database, cast(SigningPool, counting)) == 160
    assert counting.rows == [64, 64] + [1] * 32


def test_late_token_does_not_replace_a_stored_one(database: Database, pool: SigningPool) -> None:
    tpp = database.write_now(inbox_fixture.add_client)
    publish(database, tpp.client_id)
    late = database.read_now(signer.read_batch, ROUND_START)
    sign_all(database, pool)
    before = inbox_rows(database)[0]["text"]
    signed = [SignedEvent(row.id, row.client, "another.token.signed-late", _PS256.kid) for row in late.rows]
    database.write_now(signer.store_signed, signed, {row.id: row.profile for row in late.rows}, None)
    assert inbox_rows(database)[0]["text"] == before
    assert sign_all(database, pool) == 0


class _CommonStart:
    """Runs what is given to it when every node has begun."""

    def __init__(self, nodes: int) -> None:
        self._missing = nodes
        self._guard = threading.Lock()
        self._held: list[Callable[[], None]] = []

    def begin(self) -> None:
        with self._guard:
            self._missing -= 1
            held = [] if self._missing else self._held
        for each in held:
            each()

    def then(self, work: Callable[[], None]) -> None:
        with self._guard:
            if self._missing:
                self._held.append(work)
                return
        work()


class _NodePool:
    """Passes the jobs of one node on to a pool; no job ends before every node has submitted one."""

    def __init__(self, pool: SigningPool, start: _CommonStart) -> None:
        self._pool = pool
        self.size = pool.size
        self._start = start
        self._has_begun = False

    def submit(self, job: SigningJob, key: KeyMessage) -> "Future[SignedTokens]":
        ended: Future[SignedTokens] = Future()
        self._pool.submit(job, key).add_done_callback(
            lambda signed: self._start.then(lambda: ended.set_result(signed.result()))
        )
        if not self._has_begun:
            self._has_begun = True
            self._start.begin()
        return ended


def test_two_nodes_share_the_work(database: Database, pool: SigningPool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(signer, "BATCH_ROWS", 5)
    tpp = database.write_now(inbox_fixture.add_client)
    for _ in range(40):
        publish(database, tpp.client_id)

    start = _CommonStart(2)

    async def both() -> list[int]:
        pools = [cast(SigningPool, _NodePool(pool, start)) for _ in range(2)]
        nodes = [signer_of(database, each, is_shared=True) for each in pools]
        return list(await asyncio.gather(*(node.run_once() for node in nodes)))

    counts = asyncio.run(both())
    assert sum(counts) == 40
    assert all(counts)
    assert {row["status"] for row in inbox_rows(database)} == {"ready"}


def test_token_of_a_key_withdrawn_while_signing_is_not_stored(database: Database, pool: SigningPool) -> None:
    tpp = database.write_now(inbox_fixture.add_client)
    publish(database, tpp.client_id)
    [row] = database.read_now(signer.read_batch, ROUND_START).rows
    database.write_now(event_keys.withdraw, _PS256.kid, event_keys.generate(MASTER, "PS256"), "tests")
    signed = [SignedEvent(row.id, row.client, "a.b.c", _PS256.kid)]
    assert database.write_now(signer.store_signed, signed, {row.id: row.profile}, None) == 0
    assert inbox_rows(database)[0]["status"] == "unsigned"
    assert sign_all(database, pool) == 1
    assert inbox_rows(database)[0]["kid"] != _PS256.kid


def test_token_of_a_withdrawn_key_is_signed_again_with_the_same_claims(database: Database, pool: SigningPool) -> None:
    tpp = database.write_now(inbox_fixture.add_client)
    publish(database, tpp.client_id)
    sign_all(database, pool)
    before = inbox_rows(database)[0]["text"]
    claims = verified_claims(database, before)
    database.write_now(event_keys.withdraw, _PS256.kid, event_keys.generate(MASTER, "PS256"), "tests")
    assert sign_all(database, pool) == 1
    after = inbox_rows(database)[0]["text"]
    assert after.split(".")[1] == before.split(".")[1]
    assert verified_claims(database, after) == claims


def test_token_is_due_for_push_if_the_client_has_a_receiver(database: Database, pool: SigningPool) -> None:
    pushed, polling = (database.write_now(inbox_fixture.add_client) for _ in range(2))
    database.write_now(receivers.set_receiver, pushed.id, "open-banking", "https://tpp.example/cb")
    publish(database)
    commit_events: list[object] = []
    database.on_commit(commit_events.extend)
    sign_all(database, pool)
    assert {row["client"]: row["push_at"] for row in inbox_rows(database)} == {pushed.id: START_MS, polling.id: None}
    assert PushDue() in commit_events


def test_key_that_cannot_be_opened_holds_back_only_its_own_events(database: Database, pool: SigningPool) -> None:
    fine, stuck = (database.write_now(inbox_fixture.add_client) for _ in range(2))
    set_alg(database, stuck.id, "ES256")
    database.write_now(event_keys.store_first, event_keys.generate(MasterKey(b"other" * 6 + b"xx"), "ES256"))
    publish(database)
    node = signer_of(database, pool)
    assert asyncio.run(node.run_once()) == 1
    assert {row["client"]: row["status"] for row in inbox_rows(database)} == {fine.id: "ready", stuck.id: "unsigned"}
    assert node.counters.failed == 1
    assert database.read_now(signer.count_unsigned) == 1


def test_service_signs_when_woken_and_leaves_no_process(database: Database) -> None:
    tpp = database.write_now(inbox_fixture.add_client)

    async def run_service() -> list[int]:
        own = SigningPool(1)
        node = Signer(database, MASTER, own, OPTIONS, interval_seconds=3600)
        ready = asyncio.Event()
        loop = asyncio.get_running_loop()

        def on_commit_events(events: list[object]) -> None:
            if any(isinstance(event, InboxChanged) for event in events):
                loop.call_soon_threadsafe(ready.set)

        database.on_commit(on_commit_events)
        running = asyncio.create_task(node.run())
        publish(database, tpp.client_id)
        node.wake()
        async with asyncio.timeout(TIMEOUT_SECONDS):
            await ready.wait()
        pids = own.pids
        node.stop()
        await running
        assert own.pids == []
        return pids

    assert asyncio.run(run_service())
