from collections.abc import Iterator

import pytest

from restante.commands.dispatch import settlement
from restante.commands.dispatch.claims import ClaimRequest, claim
from restante.commands.dispatch.next_due import is_before_next_due, prefetch_next_due
from restante.database.connection import Connection
from restante.database.database import Database
from tests.commands.edge_fixture import Collector, CommandsHarness
from tests.commands.hint_checks import commands_hidden_by_hints
from tests.conftest import START_MS, ManualClock
from tests.defaults import claim_options

HOUR_MS = 3_600_000


@pytest.fixture
def harness(database: Database) -> Iterator[CommandsHarness]:
    yield CommandsHarness(database)
    assert commands_hidden_by_hints(database) == []


@pytest.fixture
def collector(harness: CommandsHarness, site: int) -> Collector:
    return harness.add_collector(site)


def stored(harness: CommandsHarness) -> dict[int, int | None]:
    return harness.database.read_now(lambda conn: prefetch_next_due(conn, [1, 2, 3])())


@pytest.fixture
def scans(monkeypatch: pytest.MonkeyPatch) -> list[list[int]]:
    """The sites of each scan for due commands."""
    scanned: list[list[int]] = []
    scan = settlement.prefetch_due_times

    def counted(conn: Connection, sites: list[int]) -> object:
        scanned.append(list(sites))
        return scan(conn, sites)

    monkeypatch.setattr(settlement, "prefetch_due_times", counted)
    return scanned


@pytest.mark.parametrize(
    ("times", "is_before"), [({}, False), ({1: None}, True), ({1: START_MS}, False), ({1: START_MS + 1}, True)]
)
def test_site_needs_no_scan_before_its_next_due_time(times: dict[int, int | None], is_before: bool) -> None:
    assert is_before_next_due(times, 1, START_MS) is is_before


def test_next_due_time_is_unknown_until_the_first_claim(
    harness: CommandsHarness, site: int, collector: Collector
) -> None:
    harness.add_command(site, harness.add_miner(site), ttl_sec=100)
    assert stored(harness) == {}
    harness.claim(collector.caller, 1)
    assert stored(harness) == {site: START_MS + 60_000}


def test_claim_at_a_site_that_never_had_commands_stores_nothing(harness: CommandsHarness, collector: Collector) -> None:
    harness.claim(collector.caller)
    assert stored(harness) == {}


def test_site_without_active_commands_has_no_next_due_time_until_one_is_created(
    harness: CommandsHarness, site: int, collector: Collector, clock: ManualClock
) -> None:
    miner = harness.add_miner(site)
    command = harness.add_command(site, miner)
    harness.claim(collector.caller)
    harness.ack(collector.caller, command.command_id, "succeeded")
    clock.advance(60)
    harness.claim(collector.caller)
    assert stored(harness) == {site: None}
    harness.add_command(site, miner)
    assert stored(harness) == {site: clock.now_ms + HOUR_MS}
    harness.add_command(site, miner, ttl_sec=7200)
    assert stored(harness) == {site: clock.now_ms + HOUR_MS}


def test_claims_before_the_next_due_time_do_not_scan(
    harness: CommandsHarness, site: int, collector: Collector, scans: list[list[int]]
) -> None:
    miner = harness.add_miner(site)
    for _ in range(3):
        command = harness.add_command(site, miner)
        assert len(harness.claim(collector.caller).commands) == 1
        harness.ack(collector.caller, command.command_id, "succeeded")
    assert scans == [[site]]


def test_claim_scans_at_the_next_due_time_even_if_nothing_is_due(
    harness: CommandsHarness, site: int, collector: Collector, scans: list[list[int]], clock: ManualClock
) -> None:
    command = harness.add_command(site, harness.add_miner(site))
    harness.claim(collector.caller)
    harness.ack(collector.caller, command.command_id, "succeeded")
    clock.advance(59.999)
    assert harness.claim(collector.caller).next_due_ms == clock.now_ms + 1
    assert scans == [[site]]
    clock.advance(0.001)
    assert harness.claim(collector.caller).next_due_ms is None
    assert (scans, stored(harness)) == ([[site]] * 2, {site: None})


@pytest.mark.parametrize("status", ["failed", "deferred"])
def test_back_off_lowers_the_next_due_time(
    harness: CommandsHarness, site: int, collector: Collector, clock: ManualClock, status: str
) -> None:
    command = harness.add_command(site, harness.add_miner(site))
    harness.claim(collector.caller)
    harness.ack(collector.caller, command.command_id, status)
    assert stored(harness) == {site: START_MS + 30_000}
    clock.advance(30)
    assert len(harness.claim(collector.caller).commands) == 1


def test_shorter_lease_lowers_the_next_due_time(
    harness: CommandsHarness, site: int, collector: Collector, clock: ManualClock
) -> None:
    """Nodes may be configured with different lease times."""
    lost, _ = (harness.add_command(site, harness.add_miner(site), priority=priority) for priority in (1, 0))
    claimed = harness.database.write_now(
        claim, harness.trail, claim_options(lease_seconds=300), ClaimRequest(collector.caller, None, 1)
    )
    assert [each.command_id for each in claimed.commands] == [lost.command_id]
    clock.advance(1)
    assert len(harness.claim(collector.caller).commands) == 1
    assert stored(harness) == {site: START_MS + 61_000}


def test_rest_of_a_bounded_settlement_is_due_at_once(
    harness: CommandsHarness, site: int, collector: Collector, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(settlement, "ROWS_MAX", 1)
    miner = harness.add_miner(site)
    command = [harness.add_command(site, miner, ttl_sec=10).command_id for _ in range(3)]
    clock.advance(10)
    for left in (2, 1, 0):
        assert harness.claim(collector.caller).commands == []
        assert sum(harness.command(each)["status"] == "pending" for each in command) == left


def test_rolled_back_claim_leaves_the_next_due_time(harness: CommandsHarness, site: int, collector: Collector) -> None:
    miner = harness.add_miner(site)
    command = harness.add_command(site, miner)
    harness.claim(collector.caller)
    harness.ack(collector.caller, command.command_id, "failed")
    harness.add_command(site, miner)

    def fails(conn: Connection) -> None:
        claim(conn, harness.trail, claim_options(lease_seconds=5), ClaimRequest(collector.caller, None, 5))
        raise RuntimeError("rolled back")

    with pytest.raises(RuntimeError):
        harness.database.write_now(fails)
    assert stored(harness) == {site: START_MS + 30_000}
