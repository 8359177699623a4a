import pytest

from restante.commands.dispatch import settlement
from restante.commands.dispatch.settlement import (
    DueTimes,
    apply_settlement,
    prefetch_due_times,
    sites_due,
)
from restante.commands.lifecycle.ordering import CommandsChanged
from restante.core.commands.command_states import State
from restante.database.queries import Query
from tests.commands.edge_fixture import CommandsHarness
from tests.conftest import START_MS, ManualClock


def test_site_without_due_commands_is_not_changed(harness: CommandsHarness, site: int) -> None:
    events: list[object] = []
    harness.database.on_commit(events.extend)
    assert harness.database.write_now(apply_settlement, harness.trail, site) == DueTimes(None, None, None)
    harness.add_command(site, harness.add_miner(site))
    events.clear()
    assert harness.database.write_now(apply_settlement, harness.trail, site) == (START_MS + 3_600_000, None, None)
    assert events == []


def test_command_expires_at_its_expiry_time(harness: CommandsHarness, site: int, clock: ManualClock) -> None:
    command = harness.add_command(site, harness.add_miner(site), ttl_sec=60)
    clock.advance(59.999)
    harness.database.write_now(apply_settlement, harness.trail, site)
    assert harness.command(command.command_id)["status"] == "pending"
    clock.advance(0.001)
    harness.database.write_now(apply_settlement, harness.trail, site)
    row = harness.command(command.command_id)
    assert (row["status"], row["finished_at"]) == ("expired", START_MS + 60_000)
    assert harness.audit(site)[-1] == ("command.expired", command.command_id, "pending", "expired")


def test_leased_command_expires_too(harness: CommandsHarness, site: int, clock: ManualClock) -> None:
    command = harness.add_command(site, harness.add_miner(site), ttl_sec=30)
    collector = harness.add_collector(site)
    harness.claim(collector.caller)
    clock.advance(30)
    harness.database.write_now(apply_settlement, harness.trail, site)
    assert harness.command(command.command_id)["status"] == "expired"


def test_command_with_an_expired_lease_is_requeued_after_its_back_off(
    harness: CommandsHarness, site: int, clock: ManualClock
) -> None:
    command = harness.add_command(site, harness.add_miner(site))
    collector = harness.add_collector(site)
    for retry, (lease_end, back_off) in enumerate([(60, 30), (60, 60), (60, 120)], start=1):
        assert len(harness.claim(collector.caller).commands) == 1
        end = clock.now_ms + lease_end * 1000
        clock.advance(lease_end + 7)
        harness.database.write_now(apply_settlement, harness.trail, site)
        row = harness.command(command.command_id)
        assert (row["status"], row["retry_count"], row["lease_owner"]) == ("pending", retry, None)
        assert row["next_attempt_at"] == end + back_off * 1000
        assert harness.audit(site)[-1] == ("command.lease_lost", command.command_id, "dispatched", "pending")
        clock.now_ms = end + back_off * 1000 - 1
        assert harness.claim(collector.caller).commands == []
        clock.now_ms += 1
    harness.claim(collector.caller)
    clock.advance(60)
    events: list[object] = []
    harness.database.on_commit(events.extend)
    harness.database.write_now(apply_settlement, harness.trail, site)
    row = harness.command(command.command_id)
    assert (row["status"], row["result_code"]) == ("failed", "LEASE_EXPIRED")
    assert harness.audit(site)[-1] == ("command.given_up", command.command_id, "dispatched", "failed")
    assert settlement.CommandFailed(site, "LEASE_EXPIRED") in events


def test_command_is_ready_at_once_if_its_back_off_has_passed(
    harness: CommandsHarness, site: int, clock: ManualClock
) -> None:
    command = harness.add_command(site, harness.add_miner(site))
    collector = harness.add_collector(site)
    harness.claim(collector.caller)
    clock.advance(90)
    assert [command.command_id for command in harness.claim(collector.caller).commands] == [command.command_id]


def test_settlement_publishes_a_commit_event(harness: CommandsHarness, site: int, clock: ManualClock) -> None:
    harness.add_command(site, harness.add_miner(site))
    harness.claim(harness.add_collector(site).caller)
    clock.advance(60)
    events: list[object] = []
    harness.database.on_commit(events.extend)
    harness.database.write_now(apply_settlement, harness.trail, site)
    assert CommandsChanged(site) in events


def test_settlement_is_bounded_and_reports_the_rest_as_due(
    harness: CommandsHarness, site: int, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    miner = harness.add_miner(site)
    for _ in range(5):
        harness.add_command(site, miner, ttl_sec=10)
    clock.advance(10)
    monkeypatch.setattr(settlement, "ROWS_MAX", 2)
    due_times = harness.database.write_now(apply_settlement, harness.trail, site)
    assert due_times.expiring is not None
    assert due_times.expiring <= clock.now_ms
    monkeypatch.undo()
    harness.database.write_now(apply_settlement, harness.trail, site)
    assert harness.database.read_now(lambda conn: prefetch_due_times(conn, [site])()) == {site: (None, None, None)}


@pytest.mark.parametrize("name", ["due_times", "expired_commands", "expired_leases", "end_delays", "sites_due"])
@pytest.mark.embedded
def test_settlement_finds_its_rows_by_seeks(harness: CommandsHarness, name: str) -> None:
    plan = Query("plan", "EXPLAIN QUERY PLAN " + getattr(settlement.SQL, name).text)
    rows = harness.database.read_now(lambda conn: conn.all(plan, sites="[1]", site_id=1, now_ms=1, rows_max=1))
    steps = [row["detail"] for row in rows if "miner_commands" in row["detail"]]
    assert steps
    assert all("SEARCH" in step for step in steps), steps
    assert not [row["detail"] for row in rows if "TEMP B-TREE" in row["detail"]]


def test_sites_with_due_commands_are_found(harness: CommandsHarness, clock: ManualClock) -> None:
    expiring, leased, delayed, quiet = (harness.add_site() for _ in range(4))
    for site in (expiring, leased, delayed, quiet):
        harness.add_command(site, harness.add_miner(site), ttl_sec=40 if site == expiring else 3600)
    harness.claim(harness.add_collector(leased).caller)
    collector = harness.add_collector(delayed)
    given = harness.claim(collector.caller)
    harness.ack(collector.caller, given.commands[0].command_id, "failed")
    assert harness.database.read_now(sites_due) == []
    clock.advance(60)
    assert harness.database.read_now(sites_due) == [expiring, leased, delayed]
    for site in (expiring, leased, delayed):
        harness.database.write_now(apply_settlement, harness.trail, site)
    assert harness.database.read_now(sites_due) == []
    assert State(harness.command(given.commands[0].command_id)["status"]) is State.pending
