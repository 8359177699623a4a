"""A miner has at most one leased command; the others are held until its lease has ended."""

import threading
from collections.abc import Callable
from typing import Any

import pytest

from restante.commands.acks.acks import AckResult
from restante.commands.dispatch import busy_miners, claims
from restante.commands.dispatch.claims import ClaimRequest, ClaimResult, claim_all
from restante.commands.dispatch.rate_limits import RateLimit, RateRules
from restante.commands.dispatch.settlement import apply_settlement
from restante.commands.lifecycle import cancellation, explanation, listing
from restante.commands.lifecycle.ordering import CommandsChanged
from restante.database.connection import Connection
from restante.database.database import Database
from restante.database.queries import Query
from tests.commands.default_options import commands_options
from tests.commands.edge_fixture import CommandsHarness
from tests.commands.hint_checks import commands_hidden_by_hints, miners_with_two_leases
from tests.conftest import ManualClock

PLENTY = RateRules({}, RateLimit(1_000_000, 60))
UPDATED = Query("updated", "UPDATE miner_commands SET status = 'cancelled', finished_at = 1 WHERE command_id = :id")


class BusySite:
    """A site with three miners and a collector."""

    def __init__(self, database: Database, **options: Any) -> None:
        changed = {"rates": PLENTY, "is_one_lease_per_miner": True, **options}
        self.harness = CommandsHarness(database, commands_options(**changed))
        self.id = self.harness.add_site()
        self.miner, self.second, self.third = (self.harness.add_miner(self.id) for _ in range(3))
        self.caller = self.harness.add_collector(self.id).caller

    def send(self, miner: int | None = None, **fields: Any) -> str:
        return self.harness.add_command(self.id, miner or self.miner, **fields).command_id

    def claim(self, limit: int = 10) -> list[str]:
        return [row.command_id for row in self.harness.claim(self.caller, limit).commands]

    def ack(self, command_id: str, status: str, **fields: Any) -> AckResult:
        result = self.harness.ack(self.caller, command_id, status, **fields)
        assert isinstance(result, AckResult)
        return result

    def write(self, work: Callable[..., Any], *args: Any) -> Any:
        return self.harness.database.write_now(work, self.harness.trail, *args)

    def held(self) -> int:
        query = Query("held", "SELECT COUNT(*) AS held FROM miner_commands WHERE is_held = 1")
        return int(self.harness.database.read_now(lambda conn: conn.values(query))[0][0])

    def check(self) -> None:
        assert commands_hidden_by_hints(self.harness.database) == []
        assert miners_with_two_leases(self.harness.database) == []


@pytest.fixture
def site(database: Database) -> BusySite:
    return BusySite(database)


def test_each_miner_gets_one_command(site: BusySite) -> None:
    first, _ = site.send(), site.send()
    other_type = site.send(command_type="MINER_RESTART")
    second = site.send(site.second)
    assert site.claim() == [first, second]
    assert site.claim() == []
    site.check()
    site.ack(first, "succeeded")
    site.check()
    assert other_type not in site.claim(1)
    site.check()


@pytest.mark.parametrize("status", ["succeeded", "failed", "deferred", "rejected"])
def test_ack_that_ends_the_lease_frees_the_miner(site: BusySite, status: str) -> None:
    first, second = site.send(), site.send()
    assert site.claim() == [first]
    assert site.claim() == []
    events: list[object] = []
    site.harness.database.on_commit(events.extend)
    site.ack(first, status)
    assert CommandsChanged(site.id) in events
    assert site.claim() == [second]
    site.check()


def test_running_keeps_the_miner_busy(site: BusySite) -> None:
    first, second = site.send(), site.send()
    assert site.claim() == [first]
    site.ack(first, "running")
    assert site.claim() == []
    site.ack(first, "succeeded")
    assert site.claim() == [second]


def test_ack_without_held_commands_publishes_no_change(site: BusySite) -> None:
    first = site.send()
    site.claim()
    events: list[object] = []
    site.harness.database.on_commit(events.extend)
    site.ack(first, "succeeded")
    assert events == []


def test_expired_lease_frees_the_miner(site: BusySite, clock: ManualClock) -> None:
    first, second = site.send(), site.send()
    assert site.claim() == [first]
    assert site.claim() == []
    clock.advance(59)
    assert site.claim() == []
    clock.advance(1)
    # The first one waits for its back-off.
    assert site.claim() == [second]
    site.ack(second, "succeeded")
    clock.advance(30)
    assert site.claim() == [first]
    site.check()


def test_expired_command_frees_the_miner(site: BusySite, clock: ManualClock) -> None:
    first, second = site.send(ttl_sec=10), site.send()
    assert site.claim() == [first]
    assert site.claim() == []
    clock.advance(10)
    assert site.claim() == [second]
    site.check()


def test_cancelled_command_frees_the_miner(site: BusySite) -> None:
    first, second = site.send(), site.send()
    assert site.claim() == [first]
    assert site.claim() == []
    site.write(cancellation.cancel, first, "operator")
    assert site.claim() == [second]
    site.check()


def test_held_command_that_is_cancelled_is_held_no_more(site: BusySite) -> None:
    first, second, third = site.send(), site.send(), site.send()
    assert site.claim() == [first]
    assert site.held() == 2
    site.write(cancellation.cancel, second, "operator")
    site.check()
    site.ack(first, "succeeded")
    assert site.claim() == [third]


@pytest.mark.parametrize("how", ["cancel", "expire"])
def test_ready_command_that_ends_makes_the_next_one_ready(site: BusySite, clock: ManualClock, how: str) -> None:
    first, second, third = site.send(), site.send(ttl_sec=10), site.send()
    assert site.claim() == [first]
    site.ack(first, "succeeded")
    # Now the second one is ready, and the third one is held behind it.
    if how == "cancel":
        site.write(cancellation.cancel, second, "operator")
    else:
        clock.advance(10)
        site.write(apply_settlement, site.id)
    site.check()
    assert site.claim() == [third]


def test_unreadable_command_makes_the_next_one_ready(site: BusySite) -> None:
    store = Query("store", "UPDATE miner_commands SET params = '{\"a\":1}' WHERE command_id = :id")
    fan: dict[str, Any] = {"command_type": "SET_FAN", "params": b'{"speed":1}'}
    first, second = site.send(**fan), site.send(**fan)
    site.harness.database.write_now(lambda conn: conn.run(store, id=first))
    site.claim()
    site.check()
    assert second in site.claim() or site.harness.command(second)["status"] == "dispatched"
    assert site.harness.command(first)["status"] == "cancelled"


def test_more_urgent_command_of_a_busy_miner_is_first_when_it_is_free(site: BusySite) -> None:
    first, _ = site.send(), site.send()
    site.claim()
    urgent = site.send(priority=5)
    assert site.claim() == []
    site.ack(first, "succeeded")
    assert site.claim() == [urgent]
    site.check()


def test_free_miner_gets_its_command_although_another_type_of_it_is_rate_limited(database: Database) -> None:
    rates = RateRules({"MINER_RESTART": RateLimit(1, 300)}, RateLimit(100, 60))
    site = BusySite(database, rates=rates)
    restart = site.send(command_type="MINER_RESTART")
    site.send(site.second, command_type="MINER_RESTART")
    mode = site.send(site.second)
    claimed = site.harness.claim(site.caller)
    assert [row.command_id for row in claimed.commands] == [restart, mode]
    site.ack(mode, "succeeded")
    # The second restart was counted, or is counted once its miner is free.
    assert site.harness.claim(site.caller).rate_limited_count == 1
    site.check()


def test_commands_for_many_miners_neither_wait_nor_keep_a_miner_busy(site: BusySite) -> None:
    many = [site.harness.add_command(site.id, None, target_ids=[site.miner, site.second]).command_id for _ in range(2)]
    one = site.send()
    assert site.claim() == [*many, one]
    after = site.harness.add_command(site.id, None, all_miners=True).command_id
    assert site.claim() == [after]
    site.check()


def test_claims_of_one_batch_share_the_rule(site: BusySite) -> None:
    first, _, second = site.send(), site.send(), site.send(site.second)
    other = site.harness.add_collector(site.id).caller
    requests = [ClaimRequest(site.caller, None, 1), ClaimRequest(other, None, 5), ClaimRequest(site.caller, None, 5)]
    outcomes = site.write(claim_all, site.harness.options.for_claims(), requests)
    assert [[row.command_id for row in outcome.commands] for outcome in outcomes] == [[first], [second], []]
    site.check()


def test_revoked_collector_leaves_the_miner_to_the_next_one(site: BusySite) -> None:
    first = site.send()
    site.send(command_type="MINER_RESTART")
    revoked = ClaimRequest(site.caller.__class__(10**6, site.id, None), None, 5)
    requests = [revoked, ClaimRequest(site.caller, None, 5)]
    failed, served = site.write(claim_all, site.harness.options.for_claims(), requests)
    assert not isinstance(failed, ClaimResult)
    assert [row.command_id for row in served.commands] == [first]
    site.check()


def test_concurrent_collectors_never_get_two_commands_of_a_miner(site: BusySite) -> None:
    for _ in range(12):
        for miner in (site.miner, site.second, site.third):
            site.send(miner)
            site.send(miner, command_type="MINER_RESTART")
    callers = [site.harness.add_collector(site.id).caller for _ in range(6)]
    busy: dict[int | None, str] = {}
    lock, done, errors = threading.Lock(), set[str](), list[str]()

    def work(number: int) -> None:
        caller = callers[number]
        while len(done) < 72 and not errors:
            dispatched = site.harness.claim(caller, 4).commands
            with lock:
                for row in dispatched:
                    if row.miner_id in busy:
                        errors.append(f"{row.command_id} while {busy[row.miner_id]}")
                    busy[row.miner_id] = row.command_id
            for row in dispatched:
                with lock:
                    del busy[row.miner_id]
                site.harness.ack(caller, row.command_id, "succeeded")
                done.add(row.command_id)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert (errors, len(done)) == ([], 72)
    site.check()


def test_backlog_of_a_busy_miner_hides_no_other_miner(site: BusySite) -> None:
    backlog = [site.send() for _ in range(40)]
    other = site.send(site.second)
    assert site.claim(limit=2) == [backlog[0], other]
    assert site.held() == 39
    site.check()


def test_each_lease_releases_and_holds_one_command_of_each_type(site: BusySite) -> None:
    """The cost of a claim and of an ACK does not grow with the number of commands that wait for a miner."""
    for _ in range(20):
        site.send()
        site.send(command_type="MINER_RESTART")
    site.claim()
    site.claim()
    held = site.held()
    assert held == 39
    (leased,) = (row["command_id"] for row in rows_with_status(site, "dispatched"))
    for _ in range(5):
        site.ack(leased, "succeeded")
        assert site.held() == held - 2
        (leased,) = site.claim()
        assert site.held() == held - 1
        held -= 1
    site.check()


def rows_with_status(site: BusySite, status: str) -> list[Any]:
    query = Query("rows", "SELECT command_id FROM miner_commands WHERE status = :status")
    return site.harness.database.read_now(lambda conn: conn.all(query, status=status))


def test_one_batch_holds_a_bounded_number_of_commands(site: BusySite, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(claims, "HOLD_ROUNDS_MAX", 2)
    monkeypatch.setattr(claims, "HOLD_ROWS", 5)
    first, *_ = [site.send() for _ in range(30)]
    other = site.send(site.second)
    claimed = site.harness.claim(site.caller, 2)
    assert ([row.command_id for row in claimed.commands], claimed.has_more) == ([first], True)
    site.check()
    found: list[str] = []
    for _ in range(10):
        claimed = site.harness.claim(site.caller, 2)
        found += [row.command_id for row in claimed.commands]
        site.check()
        if not claimed.has_more:
            break
    assert (found, site.held()) == ([other], 29)


def test_held_command_is_checked_again_after_a_change_by_hand(site: BusySite, clock: ManualClock) -> None:
    first, second = site.send(ttl_sec=86_400), site.send(ttl_sec=86_400)
    assert site.claim() == [first]
    site.harness.database.write_now(lambda conn: conn.run(UPDATED, id=first))
    assert site.claim() == []
    clock.advance(busy_miners.CHECK_SECONDS)
    assert site.claim() == [second]


def test_held_commands_are_dispatched_after_the_setting_is_switched_off(site: BusySite, clock: ManualClock) -> None:
    sent = [site.send() for _ in range(4)]
    assert site.claim() == sent[:1]
    off = BusySite(site.harness.database, is_one_lease_per_miner=False).harness
    clock.advance(30)
    assert off.claim(site.caller).commands == []
    site.ack(sent[0], "succeeded")
    clock.advance(busy_miners.CHECK_SECONDS - 30)
    assert [row.command_id for row in off.claim(site.caller).commands] == sent[1:]


def test_held_command_shows_no_next_attempt(site: BusySite) -> None:
    first, second = site.send(), site.send()
    site.claim()
    assert site.held() == 1
    view = site.harness.database.read_now(listing.get, second)
    assert (view.status, view.next_attempt_at) == ("pending", None)
    assert first


@pytest.mark.parametrize("is_held", [True, False])
def test_why_names_the_command_in_progress(site: BusySite, is_held: bool) -> None:
    first = site.send()
    second = site.send() if is_held else ""
    site.claim()
    second = second or site.send()
    options = site.harness.options.for_claims()
    found = site.write(explanation.explain, options, second)
    assert (found.waiting_for, found.miner_command_id, found.next_attempt_at) == ("miner", first, None)
    assert found.sentence.startswith(f"Another command of this miner is in progress: {first}.")
    assert found.until is not None
    site.ack(first, "succeeded")
    assert site.write(explanation.explain, options, second).waiting_for != "miner"


@pytest.mark.embedded
@pytest.mark.parametrize("name", ["miners_with_held", "release"])
def test_held_commands_are_found_by_seeks(site: BusySite, name: str) -> None:
    plan = Query("plan", "EXPLAIN QUERY PLAN " + getattr(busy_miners.SQL, name).text)

    def steps(conn: Connection) -> list[str]:
        return [row["detail"] for row in conn.all(plan, miners="[1]", miner_id=1)]

    found = [step for step in site.harness.database.read_now(steps) if "miner_commands" in step]
    assert found
    assert all("SEARCH" in step for step in found), found
    by_index = [step for step in found if "PRIMARY KEY" not in step]
    assert by_index
    assert all("ix_miner_commands_held" in step for step in by_index), found
