import asyncio
from collections.abc import Iterator

import pytest

from restante.database.database import Database
from restante.events import event_keys, receivers, signer
from restante.events.inbox import InboxChanged, SignedEvent
from restante.events.receivers import PushDue
from restante.events.sign_pool import SignPool
from restante.events.sign_turns import START
from restante.events.signer import Signer
from restante.identity.master_key import MasterKey
from tests.conftest import START_MS
from tests.events import bank
from tests.events.publishers import (
    MASTER,
    OPTIONS,
    SIGNAL,
    SUB,
    UPDATED,
    add_stream,
    header_of,
    publish,
    rows,
    set_alg,
    signer_of,
    verified,
)

PATIENCE_SECONDS = 60.0


@pytest.fixture(scope="module")
def pool() -> Iterator[SignPool]:
    pool = SignPool(2)
    yield pool
    pool.close()


@pytest.fixture(autouse=True)
def quick_keys(database: Database) -> None:
    """A key of the usual algorithm is there already: making one anew for every test takes long."""
    database.write_now(event_keys.store_first, _PS256)


_PS256 = event_keys.make(MASTER, "PS256")


def sign_all(database: Database, pool: SignPool, **changed: bool) -> int:
    return asyncio.run(signer_of(database, pool, **changed).run_once())


def test_a_published_event_becomes_a_token(database: Database, pool: SignPool) -> None:
    tpp = database.write_now(bank.add_client)
    [jti] = publish(database, tpp.client_id, txn="t-1", toe=7)
    heard: list[object] = []
    database.on_commit(heard.extend)
    assert sign_all(database, pool) == 1
    [row] = rows(database)
    assert (row["status"], row["kid"], row["push_at"]) == ("ready", _PS256.kid, None)
    assert verified(database, row["text"]) == {
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
    assert heard == [InboxChanged(tpp.id)]


@pytest.mark.parametrize("alg", ["ES256", "EdDSA", "RS256"])
def test_each_client_has_its_algorithm_and_the_key_is_made_when_needed(
    database: Database, pool: SignPool, alg: str
) -> None:
    tpp = database.write_now(bank.add_client)
    set_alg(database, tpp.id, alg)
    publish(database, tpp.client_id)
    assert sign_all(database, pool) == 1
    [row] = rows(database)
    assert verified(database, row["text"])["aud"] == tpp.client_id
    assert header_of(row["text"])["alg"] == alg


def test_a_shared_signal_is_signed_as_such(database: Database, pool: SignPool) -> None:
    receiver = database.write_now(bank.add_client)
    add_stream(database, receiver.id, f'["{SIGNAL}"]')
    publish(database, receiver.client_id, events={SIGNAL: {}})
    sign_all(database, pool)
    [row] = rows(database)
    header = header_of(row["text"])
    assert (header["alg"], header["typ"]) == ("RS256", "secevent+jwt")
    assert "crit" not in header
    claims = verified(database, row["text"])
    assert (claims["iss"], claims["sub_id"]["format"]) == ("https://bank.example", "uri")
    assert "sub" not in claims


def test_many_are_signed_in_several_batches(
    database: Database, pool: SignPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(signer, "BATCH_ROWS", 7)
    tpps = [database.write_now(bank.add_client) for _ in range(3)]
    jtis = [jti for _ in range(8) for jti in publish(database)]
    one = signer_of(database, pool)
    assert asyncio.run(one.run_once()) == len(jtis) == 24
    found = rows(database)
    assert [row["jti"] for row in found] == jtis
    assert {row["status"] for row in found} == {"ready"}
    assert [verified(database, row["text"])["jti"] for row in found] == jtis
    assert one.totals.signed == 24
    assert one.totals.cpu_seconds > 0
    assert len(tpps) == 3


def test_a_clients_single_event_does_not_wait_for_anothers_backlog(
    database: Database, pool: SignPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(signer, "BATCH_ROWS", 8)
    busy, quiet = (database.write_now(bank.add_client) for _ in range(2))
    jtis = [jti for _ in range(40) for jti in publish(database, busy.client_id)]
    late = publish(database, quiet.client_id)
    stored: list[list[str]] = []

    def hear(events: list[object]) -> None:
        if any(isinstance(event, InboxChanged) for event in events):
            stored.append([row["jti"] for row in rows(database) if row["status"] == "ready"])

    database.on_commit(hear)
    assert sign_all(database, pool) == 41
    # In the first batch already, beside what the other has waiting, which goes on in its order.
    assert stored[0] == jtis[:7] + late
    assert stored[-1] == jtis + late


def test_nothing_is_signed_twice(database: Database, pool: SignPool) -> None:
    tpp = database.write_now(bank.add_client)
    publish(database, tpp.client_id)
    late = database.read_now(signer.look, START)
    sign_all(database, pool)
    before = rows(database)[0]["text"]
    signed = [SignedEvent(row.id, row.client, "another.token.signed-late", _PS256.kid) for row in late.rows]
    database.write_now(signer.store, signed, {row.id: row.profile for row in late.rows}, None)
    assert rows(database)[0]["text"] == before
    assert sign_all(database, pool) == 0


def test_two_nodes_share_the_work(database: Database, pool: SignPool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(signer, "BATCH_ROWS", 5)
    tpp = database.write_now(bank.add_client)
    for _ in range(40):
        publish(database, tpp.client_id)

    async def both() -> list[int]:
        nodes = [signer_of(database, pool, is_shared=True) for _ in range(2)]
        return list(await asyncio.gather(*(node.run_once() for node in nodes)))

    counts = asyncio.run(both())
    assert sum(counts) == 40
    assert all(counts)
    assert {row["status"] for row in rows(database)} == {"ready"}


def test_tokens_of_a_key_that_was_withdrawn_meanwhile_are_not_stored(database: Database, pool: SignPool) -> None:
    tpp = database.write_now(bank.add_client)
    publish(database, tpp.client_id)
    [row] = database.read_now(signer.look, START).rows
    database.write_now(event_keys.withdraw, _PS256.kid, event_keys.make(MASTER, "PS256"), "tests")
    signed = [SignedEvent(row.id, row.client, "a.b.c", _PS256.kid)]
    assert database.write_now(signer.store, signed, {row.id: row.profile}, None) == 0
    assert rows(database)[0]["status"] == "unsigned"
    assert sign_all(database, pool) == 1
    assert rows(database)[0]["kid"] != _PS256.kid


def test_a_token_of_a_withdrawn_key_is_signed_again_with_the_same_claims(database: Database, pool: SignPool) -> None:
    tpp = database.write_now(bank.add_client)
    publish(database, tpp.client_id)
    sign_all(database, pool)
    before = rows(database)[0]["text"]
    claims = verified(database, before)
    database.write_now(event_keys.withdraw, _PS256.kid, event_keys.make(MASTER, "PS256"), "tests")
    assert sign_all(database, pool) == 1
    after = rows(database)[0]["text"]
    assert after.split(".")[1] == before.split(".")[1]
    assert verified(database, after) == claims


def test_who_has_a_receiver_is_pushed_to(database: Database, pool: SignPool) -> None:
    pushed, polling = (database.write_now(bank.add_client) for _ in range(2))
    database.write_now(receivers.put, pushed.id, "open-banking", "https://tpp.example/cb")
    publish(database)
    heard: list[object] = []
    database.on_commit(heard.extend)
    sign_all(database, pool)
    assert {row["client"]: row["push_at"] for row in rows(database)} == {pushed.id: START_MS, polling.id: None}
    assert PushDue() in heard


def test_a_key_that_cannot_be_opened_holds_back_its_own_rows_only(database: Database, pool: SignPool) -> None:
    fine, stuck = (database.write_now(bank.add_client) for _ in range(2))
    set_alg(database, stuck.id, "ES256")
    database.write_now(event_keys.store_first, event_keys.make(MasterKey(b"other" * 6 + b"xx"), "ES256"))
    publish(database)
    node = signer_of(database, pool)
    assert asyncio.run(node.run_once()) == 1
    assert {row["client"]: row["status"] for row in rows(database)} == {fine.id: "ready", stuck.id: "unsigned"}
    assert node.totals.failed == 1
    assert database.read_now(signer.backlog) == 1


def test_the_service_signs_when_rung_and_leaves_no_process(database: Database) -> None:
    tpp = database.write_now(bank.add_client)

    async def story() -> list[int]:
        own = SignPool(1)
        node = Signer(database, MASTER, own, OPTIONS, interval_seconds=3600)
        ready = asyncio.Event()
        loop = asyncio.get_running_loop()

        def hear(events: list[object]) -> None:
            if any(isinstance(event, InboxChanged) for event in events):
                loop.call_soon_threadsafe(ready.set)

        database.on_commit(hear)
        running = asyncio.create_task(node.run())
        publish(database, tpp.client_id)
        node.ring()
        async with asyncio.timeout(PATIENCE_SECONDS):
            await ready.wait()
        pids = own.pids
        node.stop()
        await running
        assert own.pids == []
        return pids

    assert asyncio.run(story())
