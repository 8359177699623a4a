"""Locks that only several writers need: while one transaction is open, the second waits and then sees its result."""

import threading
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import pytest

from restante.commands.acks import acks
from restante.commands.acks.acks import AckResult
from restante.commands.audit.audit_trail import ROOT_CHAIN, AuditEntry, AuditTrail
from restante.commands.dispatch import claims
from restante.commands.dispatch.claims import ClaimRequest
from restante.commands.dispatch.rate_limits import RateLimit, RateRules
from restante.commands.errors import CommandFinished, RateLimited
from restante.commands.lifecycle import cancellation, creation
from restante.commands.lifecycle.creation import CommandRequest
from restante.core.cursor import START
from restante.core.errors import Conflict, RestanteError
from restante.database.connection import Connection, Row
from restante.database.database import Database
from restante.database.queries import Query
from restante.delivery.log import log
from restante.delivery.log.signals import Signal
from restante.delivery.outbox import outbox
from restante.events.clients import clients
from restante.events.clients.authentication.client_auth import AuthenticatedClient
from restante.events.clients.authentication.oauth_errors import InvalidClient
from restante.events.clients.authentication.routes_token import issue_token
from restante.events.clients.clients import ClientRegistration
from restante.events.inbox.inbox import OPEN_BANKING, SignedEvent
from restante.events.push import push_queue, receivers
from restante.events.push.push_queue import LeaseHolder
from restante.events.signing import event_keys, signer
from restante.events.signing.fair_batching import ROUND_START
from restante.identity import signing_keys
from restante.identity.callers import CollectorCaller
from restante.identity.devices import device_codes, refresh_tokens
from restante.identity.devices.device_codes import DeviceCodeStatus
from restante.identity.devices.refresh_key import RefreshKey
from restante.updates.install import install_configs
from restante.updates.install.install_configs import ConfigEdit
from restante.updates.install.install_items import CheckedInstalls
from tests.commands.default_options import commands_options
from tests.commands.edge_fixture import CommandsHarness, ack_of
from tests.conftest import ManualClock
from tests.defaults import append_all_signals, append_signals, claim_options, new_postgres_engine
from tests.delivery.rows import add_device, signal
from tests.events import inbox_fixture
from tests.events.publish_fixture import MASTER
from tests.faults.nodes.lock_waits import TIMEOUT_SECONDS, wait_until_blocked_or_done
from tests.faults.nodes.two_transactions import TwoTransactions, committed
from tests.identity.people_and_devices import CODE_KEY, CODE_LIMITS

DAY_SECONDS = 86_400
LEASE_SECONDS = 30
ONE_A_DAY = RateRules({}, RateLimit(1, DAY_SECONDS))


class LeasedCommand(NamedTuple):
    """A command, and the collector that leases it."""

    caller: CollectorCaller
    command_id: str


@pytest.fixture
def transactions(postgres_url: str) -> Iterator[TwoTransactions]:
    transactions = TwoTransactions(postgres_url)
    yield transactions
    transactions.close()


def attempt(conn: Connection, work: Callable[..., Any], *args: Any) -> Any:
    """Run any function, because the two transactions of a test may do different things; return a refusal as result."""
    try:
        return work(conn, *args)
    except RestanteError as refusal:
        return refusal


def test_signals_of_a_device_are_appended_one_transaction_at_a_time(transactions: TwoTransactions) -> None:
    device = committed(transactions.second, add_device, ())
    committed(transactions.second, append_signals, (device, [signal(0)]))
    first, second, has_waited = transactions.run_both(
        append_signals, (device, [signal(1, ts_ms=2)]), (device, [signal(2, ts_ms=3)])
    )
    assert has_waited
    assert [published.head.newest.n for published in (first, second)] == [2, 3]


def test_signals_of_a_device_are_enqueued_in_commit_order(transactions: TwoTransactions) -> None:
    device = committed(transactions.second, add_device, ())
    _, _, has_waited = transactions.run_both(outbox.enqueue, (device, signal(1)), (device, signal(2)))
    assert has_waited


def test_row_behind_a_row_that_is_being_claimed_is_not_claimed(transactions: TwoTransactions) -> None:
    """The second dispatcher must see the lease on the older row of the device, which holds back the later one."""
    device = committed(transactions.second, add_device, ())
    for about in range(2):
        committed(transactions.second, outbox.enqueue, (device, signal(about)))
    first, second, _ = transactions.run_both(outbox.claim, ("one", DAY_SECONDS, 1), ("other", DAY_SECONDS, 1))
    assert (first, second) == (1, 0)


def test_second_of_two_polls_of_a_device_code_is_told_to_slow_down(transactions: TwoTransactions) -> None:
    codes = committed(transactions.second, start_device_code, ())
    first, second, _ = transactions.run_both(
        device_codes.poll, (CODE_KEY, codes.device_code, None), (CODE_KEY, codes.device_code, None)
    )
    assert (first, second) == (DeviceCodeStatus.authorization_pending, DeviceCodeStatus.slow_down)


def test_two_sign_ins_of_a_device_at_once_leave_one_session(transactions: TwoTransactions) -> None:
    device = committed(transactions.second, add_device, ())
    key = RefreshKey(MASTER)
    arguments = (key, 1, device, DAY_SECONDS)
    first, second, has_waited = transactions.run_both(refresh_tokens.start_family, arguments, arguments)
    assert has_waited
    assert first != second
    live = Query("live", "SELECT count(*) AS live FROM refresh_families WHERE revoked_at IS NULL")
    (row,) = committed(transactions.second, lambda conn: conn.all(live), ())
    assert row["live"] == 1


def start_device_code(conn: Connection) -> device_codes.IssuedCodes:
    return device_codes.start(
        conn,
        CODE_KEY,
        CODE_LIMITS,
        scopes=[],
        interval_seconds=DAY_SECONDS,
        expires_in=DAY_SECONDS,
        address="192.0.2.1",
        user_agent="",
    )


def test_two_registrations_at_once_leave_one_session(transactions: TwoTransactions) -> None:
    user, device = committed(transactions.second, add_owned_device, ())
    arguments = (RefreshKey(MASTER), user, device, DAY_SECONDS)
    transactions.run_both(refresh_tokens.start_family, arguments, arguments)
    assert len(committed(transactions.first, live_sessions, (device,))) == 1


def live_sessions(conn: Connection, device: int) -> list[Row]:
    query = Query("live", "SELECT 1 FROM refresh_families WHERE device_id = :device AND revoked_at IS NULL")
    return conn.all(query, device=device)


def test_row_whose_lease_ends_while_it_is_published_is_published_once(postgres_url: str) -> None:
    """The other dispatcher must wait for the row, although its own clock shows that the lease has ended."""
    clocks = [ManualClock(), ManualClock()]
    one, other = [new_postgres_engine(postgres_url, clock=clock).connect(writable=True) for clock in clocks]
    device = committed(one, add_device, ())
    committed(one, outbox.enqueue, (device, signal(1)))
    committed(one, outbox.claim, ("one", LEASE_SECONDS, 10))
    clocks[1].advance(LEASE_SECONDS)

    def claim_and_deliver() -> None:
        committed(other, outbox.claim, ("other", LEASE_SECONDS, 10))
        committed(other, outbox.deliver_leased, ("other", append_all_signals))

    claiming = threading.Thread(target=claim_and_deliver)

    def append(conn: Connection, signals: Mapping[int, list[Signal]]) -> None:
        claiming.start()
        wait_until_blocked_or_done(conn, claiming)
        append_all_signals(conn, signals)

    committed(one, outbox.deliver_leased, ("one", append))
    claiming.join(TIMEOUT_SECONDS)
    assert len(committed(one, log.read, (device, START, 10)).entries) == 1
    one.close()
    other.close()


def test_withdrawal_of_a_key_waits_for_tokens_that_are_being_stored(transactions: TwoTransactions) -> None:
    """The tokens are signed again with another key: the withdrawal must find them."""
    client = committed(transactions.second, inbox_fixture.add_client, ()).id
    (event,) = committed(transactions.second, inbox_fixture.put_unsigned, (client, "a"))
    kid = committed(transactions.second, inbox_fixture.add_key, (MASTER,))
    signed = [SignedEvent(event, client, inbox_fixture.token_of("a"), kid)]
    successor = event_keys.generate(MASTER, "EdDSA")
    stored, signed_again, _ = transactions.run_both(
        attempt,
        (signer.store_signed, signed, {event: OPEN_BANKING}, None),
        (event_keys.withdraw, kid, successor, "tests"),
    )
    assert (stored, signed_again) == (1, 1)


def test_receiver_that_is_being_leased_is_not_leased_by_another(transactions: TwoTransactions) -> None:
    client = committed(transactions.second, inbox_fixture.add_client, ()).id
    committed(transactions.second, receivers.set_receiver, (client, OPEN_BANKING, "https://tpp.example/hook"))
    committed(transactions.second, put_due_for_push, (client, "a"))
    first, second, _ = transactions.run_both(
        push_queue.acquire, (LeaseHolder("one", 60_000), 10), (LeaseHolder("other", 60_000), 10)
    )
    assert [len(deliveries) for deliveries in (first, second)] == [1, 0]


def put_due_for_push(conn: Connection, client: int, jti: str) -> None:
    (event,) = inbox_fixture.put_unsigned(conn, client, jti)
    kid = inbox_fixture.add_key(conn, MASTER)
    signer.store_signed(
        conn, [SignedEvent(event, client, inbox_fixture.token_of(jti), kid)], {event: OPEN_BANKING}, None
    )


@pytest.fixture
def harness(postgres_url: str) -> Iterator[CommandsHarness]:
    node = Database(new_postgres_engine(postgres_url))
    yield CommandsHarness(node, commands_options(rates=ONE_A_DAY))
    node.close()


@pytest.fixture
def leased(harness: CommandsHarness) -> LeasedCommand:
    site = harness.add_site()
    miner = harness.add_miner(site)
    collector = harness.add_collector(site).caller
    command_id = harness.add_command(site, miner).command_id
    (dispatched,) = harness.claim(collector).commands
    assert dispatched.command_id == command_id
    return LeasedCommand(collector, command_id)


def test_command_that_ends_before_its_cancellation_is_not_cancelled(
    transactions: TwoTransactions, harness: CommandsHarness, leased: LeasedCommand
) -> None:
    """The cancellation reads the command, waits for the ACK that ends it, and must read it again."""
    _, cancelled, has_waited = transactions.run_both(
        attempt,
        (acks.accept_ack, harness.trail, harness.ack_options(), leased.caller, leased.command_id, ack_of("succeeded")),
        (cancellation.cancel, harness.trail, leased.command_id, "operator"),
    )
    assert has_waited
    assert isinstance(cancelled, CommandFinished)
    assert harness.command(leased.command_id)["status"] == "succeeded"


def test_second_of_two_different_acks_is_refused(
    transactions: TwoTransactions, harness: CommandsHarness, leased: LeasedCommand
) -> None:
    arguments = (acks.accept_ack, harness.trail, harness.ack_options(), leased.caller, leased.command_id)
    first, second, _ = transactions.run_both(
        attempt, (*arguments, ack_of("succeeded")), (*arguments, ack_of("rejected"))
    )
    assert isinstance(first, AckResult)
    assert isinstance(second, CommandFinished)


def test_command_is_refused_by_a_rate_window_that_is_being_filled(
    transactions: TwoTransactions, harness: CommandsHarness
) -> None:
    site = harness.add_site()
    miner = harness.add_miner(site)
    collector = harness.add_collector(site).caller
    harness.add_command(site, miner)
    request = CommandRequest(site_id=site, miner_id=miner, command_type="POWER_MODE", params=b'{"mode":"LOW"}')
    _, created, _ = transactions.run_both(
        attempt,
        (
            claims.claim,
            harness.trail,
            claim_options(lease_seconds=60, rates=ONE_A_DAY, is_one_lease_per_miner=False),
            ClaimRequest(collector, None, 1),
        ),
        (creation.create, harness.trail, request, "operator", harness.creation_options),
    )
    assert isinstance(created, RateLimited)


def test_claim_does_not_lock_the_row_of_its_collector(transactions: TwoTransactions, harness: CommandsHarness) -> None:
    site = harness.add_site()
    collector = harness.add_collector(site).caller
    harness.add_command(site, harness.add_miner(site))
    lock = Query("lock", "SELECT id FROM edge_devices WHERE id = :id FOR UPDATE")
    options = claim_options(lease_seconds=60, rates=ONE_A_DAY, is_one_lease_per_miner=False)
    claimed, _, has_waited = transactions.run_both(
        attempt,
        (claims.claim, harness.trail, options, ClaimRequest(collector, None, 1)),
        (lambda conn: conn.all(lock, id=collector.device_id),),
    )
    assert claimed.commands
    assert not has_waited


def test_rows_of_one_audit_chain_are_written_one_transaction_at_a_time(
    transactions: TwoTransactions, harness: CommandsHarness
) -> None:
    entry = AuditEntry(ROOT_CHAIN, "tests", "tests.happened", None, None, None, {})
    _, _, has_waited = transactions.run_both(record, (harness.trail, entry), (harness.trail, entry))
    assert has_waited


def record(conn: Connection, trail: AuditTrail, entry: AuditEntry) -> None:
    trail.record(conn, entry)


def test_token_is_refused_to_a_client_that_is_being_suspended(transactions: TwoTransactions) -> None:
    registration = ClientRegistration("a bank app", "client_secret_basic", "tpp")
    committed(transactions.second, clients.add, (registration,))
    authenticated = AuthenticatedClient(committed(transactions.second, clients.get, ("tpp",)))
    _, token, _ = transactions.run_both(
        attempt,
        (clients.suspend, "tpp", "operator"),
        (issue_token, authenticated, "eventpolling", None, 60),
    )
    assert isinstance(token, InvalidClient)


def test_rows_that_are_being_leased_for_signing_are_not_leased_by_another(transactions: TwoTransactions) -> None:
    client = committed(transactions.second, inbox_fixture.add_client, ()).id
    committed(transactions.second, inbox_fixture.put_unsigned, (client, "a", "b"))
    first, second, _ = transactions.run_both(signer.lease_batch, (ROUND_START,), (ROUND_START,))
    assert [len(batch.rows) for batch in (first, second)] == [2, 0]


def test_first_signing_key_of_two_nodes_is_one_key(transactions: TwoTransactions) -> None:
    transactions.run_both(signing_keys.store_first, (signing_keys.make(MASTER),), (signing_keys.make(MASTER),))
    assert len(committed(transactions.first, signing_keys.list_verifying, ())) == 1


def test_install_config_that_is_being_edited_has_another_version(transactions: TwoTransactions) -> None:
    user, device = committed(transactions.second, add_owned_device, ())
    first_edit = ConfigEdit(user, device, "tests", expected_version=0)
    arguments = (install_configs.put, outbox.enqueue, first_edit, CheckedInstalls(b"[]", []), None)
    _, refused, _ = transactions.run_both(attempt, arguments, arguments)
    assert isinstance(refused, Conflict)


def add_owned_device(conn: Connection) -> tuple[int, int]:
    device = add_device(conn)
    row = conn.one(Query("owner", "SELECT user_id FROM user_devices WHERE id = :device"), device=device)
    assert row is not None
    return row["user_id"], device
