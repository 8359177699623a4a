import threading
import uuid
from typing import Any

import pytest

from restante.commands.dispatch import claims
from restante.commands.dispatch.claims import (
    ClaimRequest,
    ClaimResult,
    DispatchedCommand,
    claim_all,
    new_nonce,
)
from restante.commands.dispatch.rate_limits import RateLimit, RateRules, allowance
from restante.commands.errors import AccessDenied
from restante.commands.sites import collectors
from restante.core.errors import NotAuthenticated
from restante.database.database import Database
from restante.database.queries import number_parameters
from restante.identity.clients import collector_tokens
from tests.commands.default_options import commands_options
from tests.commands.edge_fixture import CommandsHarness
from tests.conftest import START_MS, ManualClock
from tests.defaults import claim_options

FAN: dict[str, Any] = {"command_type": "SET_FAN", "params": b'{"speed":50}'}


def ids(commands: list[DispatchedCommand]) -> list[str]:
    return [command.command_id for command in commands]


def test_claim_at_an_empty_site_returns_no_commands(harness: CommandsHarness, site: int) -> None:
    assert harness.claim(harness.add_collector(site).caller) == ClaimResult([], 0, False, None, START_MS)


def test_claim_leases_the_command(harness: CommandsHarness, site: int) -> None:
    miner = harness.add_miner(site)
    sent = harness.add_command(site, miner)
    collector = harness.add_collector(site)
    claimed = harness.claim(collector.caller)
    row = harness.command(sent.command_id)
    assert ids(claimed.commands) == [sent.command_id]
    assert (row["status"], row["lease_owner"], row["attempt"]) == ("dispatched", collector.caller.device_id, 1)
    assert (row["lease_until"], row["dispatched_at"]) == (START_MS + 60_000, START_MS)
    assert row["nonce"] == claimed.commands[0].nonce
    assert claimed.next_due_ms == START_MS + 60_000
    assert not claimed.has_more
    assert harness.audit(site)[-1] == ("command.dispatched", sent.command_id, "pending", "dispatched")
    assert harness.claim(harness.add_collector(site).caller).commands == []


def test_each_attempt_has_its_own_nonce(harness: CommandsHarness, site: int, clock: ManualClock) -> None:
    harness.add_command(site, harness.add_miner(site))
    collector = harness.add_collector(site)
    first = harness.claim(collector.caller).commands[0]
    clock.advance(90)
    second = harness.claim(collector.caller).commands[0]
    assert (first.attempt, second.attempt) == (1, 2)
    assert first.nonce != second.nonce


def test_commands_are_ordered_by_priority_then_age_across_types(
    harness: CommandsHarness, site: int, clock: ManualClock
) -> None:
    miner = harness.add_miner(site)
    low = harness.add_command(site, miner)
    clock.advance(1)
    high = harness.add_command(site, miner, priority=2, **FAN)
    clock.advance(1)
    low_too = harness.add_command(site, miner, **FAN)
    clock.advance(1)
    high_too = harness.add_command(site, miner, priority=2)
    expected = [high.command_id, high_too.command_id, low.command_id, low_too.command_id]
    assert ids(harness.claim(harness.add_collector(site).caller).commands) == expected


def test_claim_respects_its_limit_and_reports_more(harness: CommandsHarness, site: int) -> None:
    miner = harness.add_miner(site)
    sent = [harness.add_command(site, miner) for _ in range(3)]
    collector = harness.add_collector(site)
    first = harness.claim(collector.caller, limit=2)
    assert (ids(first.commands), first.has_more) == ([each.command_id for each in sent[:2]], True)
    second = harness.claim(collector.caller, limit=1)
    assert (ids(second.commands), second.has_more) == ([sent[2].command_id], False)


def test_commands_over_the_rate_limit_stay_and_are_counted(
    harness: CommandsHarness, site: int, clock: ManualClock
) -> None:
    miner = harness.add_miner(site)
    for _ in range(12):
        harness.add_command(site, miner, "MINER_RESTART")
    fan = harness.add_command(site, miner, **FAN)
    collector = harness.add_collector(site)
    claimed = harness.claim(collector.caller)
    assert len(claimed.commands) == 6
    assert ids(claimed.commands)[-1] == fan.command_id
    assert (claimed.rate_limited_count, claimed.has_more) == (7, False)
    again = harness.claim(collector.caller)
    assert (again.commands, again.rate_limited_count) == ([], 7)
    assert again.next_due_ms == START_MS + 60_000
    clock.advance(300)
    later = harness.claim(collector.caller)
    assert [row.command_type for row in later.commands].count("MINER_RESTART") == 5


def test_rate_windows_hold_for_expected_and_unexpected_types(database: Database) -> None:
    harness = CommandsHarness(database, commands_options(rates=RateRules({}, RateLimit(2, 60))))
    site = harness.add_site()
    caller = harness.add_collector(site).caller

    def claimed_types() -> list[str]:
        return [row.command_type for row in harness.claim(caller, limit=2).commands]

    for _ in range(3):
        harness.add_command(site, harness.add_miner(site), priority=2)
    harness.add_command(site, harness.add_miner(site), priority=3, **FAN)
    assert claimed_types() == ["SET_FAN", "POWER_MODE"]
    # SET_FAN is expected in vain, MINER_RESTART is not expected.
    harness.add_command(site, harness.add_miner(site), "MINER_RESTART")
    assert claimed_types() == ["POWER_MODE", "MINER_RESTART"]
    again = harness.claim(caller)
    assert (again.commands, again.rate_limited_count) == ([], 1)


def test_limit_of_the_poll_is_not_reported_as_rate_limit(harness: CommandsHarness, site: int) -> None:
    miner = harness.add_miner(site)
    for _ in range(7):
        harness.add_command(site, miner, "MINER_RESTART")
    claimed = harness.claim(harness.add_collector(site).caller, limit=2)
    assert (len(claimed.commands), claimed.rate_limited_count, claimed.has_more) == (2, 0, True)


def test_rate_limited_commands_are_counted_when_the_poll_is_full_too(harness: CommandsHarness, site: int) -> None:
    miner = harness.add_miner(site)
    for _ in range(7):
        harness.add_command(site, miner, "MINER_RESTART")
    collector = harness.add_collector(site)
    harness.claim(collector.caller, limit=5)
    for _ in range(2):
        harness.add_command(site, miner, priority=9)
    claimed = harness.claim(collector.caller, limit=1)
    assert (len(claimed.commands), claimed.rate_limited_count, claimed.has_more) == (1, 2, True)


def test_expired_command_is_never_dispatched(harness: CommandsHarness, site: int, clock: ManualClock) -> None:
    sent = harness.add_command(site, harness.add_miner(site), ttl_sec=10)
    clock.advance(10)
    assert harness.claim(harness.add_collector(site).caller).commands == []
    assert harness.command(sent.command_id)["status"] == "expired"


def test_expired_commands_that_a_bounded_settlement_left_over_are_not_dispatched(
    harness: CommandsHarness, site: int, clock: ManualClock
) -> None:
    miner = harness.add_miner(site)
    for _ in range(230):
        harness.add_command(site, miner, ttl_sec=10)
    clock.advance(10)
    collector = harness.add_collector(site)
    first = harness.claim(collector.caller)
    assert first.commands == []
    assert first.next_due_ms is not None
    assert first.next_due_ms <= clock.now_ms
    assert harness.claim(collector.caller).next_due_ms is None
    # None of them has used the rate window.
    assert harness.database.read_now(allowance, RateRules(), site, "POWER_MODE").left == 20


def test_commands_of_another_site_are_not_claimed(harness: CommandsHarness, site: int) -> None:
    harness.add_command(site, harness.add_miner(site))
    assert harness.claim(harness.add_collector(harness.add_site()).caller).commands == []


def test_revoked_collector_is_refused_and_command_stays_pending(harness: CommandsHarness, site: int) -> None:
    sent = harness.add_command(site, harness.add_miner(site))
    collector = harness.add_collector(site)
    harness.database.write_now(collectors.revoke, harness.trail, collector.caller.device_id, "tests")
    with pytest.raises(NotAuthenticated):
        harness.claim(collector.caller)
    assert harness.command(sent.command_id)["status"] == "pending"


def test_collector_with_a_replaced_token_is_refused_and_command_stays_pending(
    harness: CommandsHarness, site: int
) -> None:
    collector = harness.add_collector(site)
    caller = harness.database.read_now(collector_tokens.find, collector.token)
    assert caller is not None
    token = harness.database.write_now(collectors.rotate_token, harness.trail, collector.caller.device_id, "tests")
    # An empty claim is not refused.
    assert harness.claim(caller).commands == []
    sent = harness.add_command(site, harness.add_miner(site))
    with pytest.raises(NotAuthenticated):
        harness.claim(caller)
    assert harness.command(sent.command_id)["status"] == "pending"
    renewed = harness.database.read_now(collector_tokens.find, token)
    assert renewed is not None
    assert ids(harness.claim(renewed).commands) == [sent.command_id]


def test_zone_in_the_request_narrows_the_claim(harness: CommandsHarness, site: int) -> None:
    zone = harness.add_zone(site)
    inside = harness.add_command(site, harness.add_miner(site, zone))
    outside = harness.add_command(site, harness.add_miner(site))
    collector = harness.add_collector(site)
    assert ids(harness.claim(collector.caller, zone_id=zone).commands) == [inside.command_id]
    assert ids(harness.claim(collector.caller).commands) == [outside.command_id]


def test_collector_of_a_zone_claims_in_that_zone_only(harness: CommandsHarness, site: int) -> None:
    zone = harness.add_zone(site)
    harness.add_command(site, harness.add_miner(site))
    inside = harness.add_command(site, harness.add_miner(site, zone))
    collector = harness.add_collector(site, zone)
    assert ids(harness.claim(collector.caller).commands) == [inside.command_id]
    with pytest.raises(AccessDenied):
        harness.claim(collector.caller, zone_id=harness.add_zone(site))


def test_missing_zone_and_zone_of_another_site_are_refused_alike(harness: CommandsHarness, site: int) -> None:
    foreign = harness.add_zone(harness.add_site())
    collector = harness.add_collector(site)
    refusals = []
    for zone in (foreign, 999_999):
        with pytest.raises(AccessDenied) as refused:
            harness.claim(collector.caller, zone_id=zone)
        refusals.append(refused.value.message)
    assert len(set(refusals)) == 1


def test_rate_limited_count_of_a_zone_covers_that_zone_only(database: Database) -> None:
    harness = CommandsHarness(database, commands_options(rates=RateRules({}, RateLimit(1, 60))))
    site = harness.add_site()
    zone = harness.add_zone(site)
    for _ in range(3):
        for miner in (harness.add_miner(site), harness.add_miner(site, zone)):
            harness.add_command(site, miner)
    claimed = harness.claim(harness.add_collector(site, zone).caller)
    assert (len(claimed.commands), claimed.rate_limited_count) == (1, 2)


def test_claim_returns_the_sealed_secret_if_commands_are_signed(database: Database) -> None:
    harness = CommandsHarness(database, commands_options(is_signed=True))
    site = harness.add_site()
    collector = harness.add_collector(site)
    assert harness.claim(collector.caller).sealed_secret is None
    harness.add_command(site, harness.add_miner(site))
    secrets = harness.claim(collector.caller).sealed_secret
    assert secrets is not None
    assert harness.component.box.open(secrets) == collector.secret


def test_two_hundred_concurrent_claims_lease_exactly_the_limit(harness: CommandsHarness, site: int) -> None:
    miner = harness.add_miner(site)
    for _ in range(60):
        harness.add_command(site, miner, "HASHING_DISABLE")
    collectors = [harness.add_collector(site) for _ in range(8)]
    granted: list[tuple[str, int, int]] = []

    def poll(n: int) -> None:
        caller = collectors[n % 8].caller
        for row in harness.claim(caller, limit=3).commands:
            granted.append((row.command_id, row.attempt, caller.device_id))

    threads = [threading.Thread(target=poll, args=(n,)) for n in range(200)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(granted) == 10
    assert len({(command_id, attempt) for command_id, attempt, _holder in granted}) == 10


def test_claim_of_a_site_and_of_its_zone_in_one_batch_share_the_commands(harness: CommandsHarness, site: int) -> None:
    zone = harness.add_zone(site)
    inside = [harness.add_command(site, harness.add_miner(site, zone)).command_id for _ in range(2)]
    outside = harness.add_command(site, harness.add_miner(site)).command_id
    of_zone, of_site = harness.add_collector(site, zone).caller, harness.add_collector(site).caller
    requests = [ClaimRequest(of_zone, None, 1), ClaimRequest(of_site, None, 5), ClaimRequest(of_zone, None, 5)]
    options = claim_options()
    outcomes = harness.database.write_now(claim_all, harness.trail, options, requests)
    claimed = [ids(outcome.commands) for outcome in outcomes if isinstance(outcome, ClaimResult)]
    assert claimed == [inside[:1], [inside[1], outside], []]


def test_lease_rows_have_the_order_of_the_query_parameters() -> None:
    for engine in ("sqlite", "postgres"):
        _text, parameters = number_parameters(claims.SQL.lease.for_engine(engine), "?")
        assert parameters == claims.LeaseRow._fields


def test_nonce_is_a_random_uuid() -> None:
    for _ in range(200):
        nonce = new_nonce()
        parsed = uuid.UUID(nonce)
        assert str(parsed) == nonce
        assert (parsed.version, parsed.variant) == (4, uuid.RFC_4122)


def test_nonces_differ_and_use_every_variant_digit() -> None:
    nonces = [new_nonce() for _ in range(2000)]
    assert len(set(nonces)) == 2000
    assert {nonce[19] for nonce in nonces} == set("89ab")
