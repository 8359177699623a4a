import threading
from typing import Any

import pytest

from restante.commands import claims, collectors
from restante.commands.claims import Claimed, HandedOut
from restante.commands.parts import CommandsOptions
from restante.commands.rate_windows import RateLimit, RateRules, allowance
from restante.commands.wire import AccessDenied
from restante.core.errors import NotAuthenticated
from restante.database.database import Database
from restante.database.queries import Query
from restante.identity import collector_tokens
from tests.commands.field import Field
from tests.conftest import START_MS, ManualClock

FAN: dict[str, Any] = {"command_type": "SET_FAN", "params": b'{"speed":50}'}


@pytest.fixture
def field(database: Database) -> Field:
    return Field(database)


@pytest.fixture
def site(field: Field) -> int:
    return field.add_site()


def ids(commands: list[HandedOut]) -> list[str]:
    return [command.command_id for command in commands]


def test_an_empty_site_gives_nothing(field: Field, site: int) -> None:
    assert field.claim(field.hire(site).caller) == Claimed([], 0, False, None, START_MS)


def test_a_claim_is_a_lease(field: Field, site: int) -> None:
    miner = field.add_miner(site)
    sent = field.send(site, miner)
    hired = field.hire(site)
    claimed = field.claim(hired.caller)
    row = field.command(sent.command_id)
    assert ids(claimed.commands) == [sent.command_id]
    assert (row["status"], row["lease_owner"], row["attempt"]) == ("dispatched", hired.caller.device_id, 1)
    assert (row["lease_until"], row["dispatched_at"]) == (START_MS + 60_000, START_MS)
    assert row["nonce"] == claimed.commands[0].nonce
    assert claimed.look_again_ms == START_MS + 60_000
    assert not claimed.has_more
    assert field.audit(site)[-1] == ("command.dispatched", sent.command_id, "pending", "dispatched")
    assert field.claim(field.hire(site).caller).commands == []


def test_each_attempt_has_a_nonce_of_its_own(field: Field, site: int, clock: ManualClock) -> None:
    field.send(site, field.add_miner(site))
    hired = field.hire(site)
    first = field.claim(hired.caller).commands[0]
    clock.advance(90)
    second = field.claim(hired.caller).commands[0]
    assert (first.attempt, second.attempt) == (1, 2)
    assert first.nonce != second.nonce


def test_order_is_priority_then_age_across_types(field: Field, site: int, clock: ManualClock) -> None:
    miner = field.add_miner(site)
    low = field.send(site, miner)
    clock.advance(1)
    high = field.send(site, miner, priority=2, **FAN)
    clock.advance(1)
    low_too = field.send(site, miner, **FAN)
    clock.advance(1)
    high_too = field.send(site, miner, priority=2)
    expected = [high.command_id, high_too.command_id, low.command_id, low_too.command_id]
    assert ids(field.claim(field.hire(site).caller).commands) == expected


def test_the_limit_is_kept_and_more_is_told(field: Field, site: int) -> None:
    miner = field.add_miner(site)
    sent = [field.send(site, miner) for _ in range(3)]
    hired = field.hire(site)
    first = field.claim(hired.caller, limit=2)
    assert (ids(first.commands), first.has_more) == ([each.command_id for each in sent[:2]], True)
    second = field.claim(hired.caller, limit=1)
    assert (ids(second.commands), second.has_more) == ([sent[2].command_id], False)


def test_what_is_over_the_rate_limit_stays_and_is_counted(field: Field, site: int, clock: ManualClock) -> None:
    miner = field.add_miner(site)
    for _ in range(12):
        field.send(site, miner, "MINER_RESTART")
    fan = field.send(site, miner, **FAN)
    hired = field.hire(site)
    claimed = field.claim(hired.caller)
    assert len(claimed.commands) == 6
    assert ids(claimed.commands)[-1] == fan.command_id
    assert (claimed.held_back, claimed.has_more) == (7, False)
    again = field.claim(hired.caller)
    assert (again.commands, again.held_back) == ([], 7)
    assert again.look_again_ms == START_MS + 60_000
    clock.advance(300)
    later = field.claim(hired.caller)
    assert [row.command_type for row in later.commands].count("MINER_RESTART") == 5


def test_a_limit_of_the_poll_is_no_rate_limit(field: Field, site: int) -> None:
    miner = field.add_miner(site)
    for _ in range(7):
        field.send(site, miner, "MINER_RESTART")
    claimed = field.claim(field.hire(site).caller, limit=2)
    assert (len(claimed.commands), claimed.held_back, claimed.has_more) == (2, 0, True)


def test_held_back_is_told_when_the_poll_is_full_too(field: Field, site: int) -> None:
    miner = field.add_miner(site)
    for _ in range(7):
        field.send(site, miner, "MINER_RESTART")
    hired = field.hire(site)
    field.claim(hired.caller, limit=5)
    for _ in range(2):
        field.send(site, miner, priority=9)
    claimed = field.claim(hired.caller, limit=1)
    assert (len(claimed.commands), claimed.held_back, claimed.has_more) == (1, 2, True)


def test_an_expired_command_is_never_handed_out(field: Field, site: int, clock: ManualClock) -> None:
    sent = field.send(site, field.add_miner(site), ttl_sec=10)
    clock.advance(10)
    assert field.claim(field.hire(site).caller).commands == []
    assert field.command(sent.command_id)["status"] == "expired"


def test_expired_ones_beyond_what_settles_at_once_are_not_handed_out(
    field: Field, site: int, clock: ManualClock
) -> None:
    miner = field.add_miner(site)
    for _ in range(230):
        field.send(site, miner, ttl_sec=10)
    clock.advance(10)
    hired = field.hire(site)
    first = field.claim(hired.caller)
    assert first.commands == []
    assert first.look_again_ms is not None
    assert first.look_again_ms <= clock.now_ms
    assert field.claim(hired.caller).look_again_ms is None
    # And none of them has used up the window.
    assert field.database.read_now(allowance, RateRules(), site, "POWER_MODE").left == 20


def test_sites_are_apart(field: Field, site: int) -> None:
    field.send(site, field.add_miner(site))
    assert field.claim(field.hire(field.add_site()).caller).commands == []


def test_a_collector_that_was_revoked_since_is_handed_nothing(field: Field, site: int) -> None:
    sent = field.send(site, field.add_miner(site))
    hired = field.hire(site)
    field.database.write_now(collectors.revoke, field.trail, hired.caller.device_id, "tests")
    with pytest.raises(NotAuthenticated):
        field.claim(hired.caller)
    assert field.command(sent.command_id)["status"] == "pending"


def test_a_collector_whose_token_was_replaced_since_is_handed_nothing(field: Field, site: int) -> None:
    hired = field.hire(site)
    caller = field.database.read_now(collector_tokens.find, hired.token)
    assert caller is not None
    token = field.database.write_now(collectors.rotate_token, field.trail, hired.caller.device_id, "tests")
    # Nothing is refused where there is nothing to hand out.
    assert field.claim(caller).commands == []
    sent = field.send(site, field.add_miner(site))
    with pytest.raises(NotAuthenticated):
        field.claim(caller)
    assert field.command(sent.command_id)["status"] == "pending"
    anew = field.database.read_now(collector_tokens.find, token)
    assert anew is not None
    assert ids(field.claim(anew).commands) == [sent.command_id]


def test_a_zone_narrows(field: Field, site: int) -> None:
    zone = field.add_zone(site)
    inside = field.send(site, field.add_miner(site, zone))
    outside = field.send(site, field.add_miner(site))
    hired = field.hire(site)
    assert ids(field.claim(hired.caller, zone_id=zone).commands) == [inside.command_id]
    assert ids(field.claim(hired.caller).commands) == [outside.command_id]


def test_a_collector_of_a_zone_serves_that_zone_only(field: Field, site: int) -> None:
    zone = field.add_zone(site)
    field.send(site, field.add_miner(site))
    inside = field.send(site, field.add_miner(site, zone))
    hired = field.hire(site, zone)
    assert ids(field.claim(hired.caller).commands) == [inside.command_id]
    with pytest.raises(AccessDenied):
        field.claim(hired.caller, zone_id=field.add_zone(site))


def test_zones_of_other_sites_and_none_look_the_same(field: Field, site: int) -> None:
    foreign = field.add_zone(field.add_site())
    hired = field.hire(site)
    refusals = []
    for zone in (foreign, 999_999):
        with pytest.raises(AccessDenied) as refused:
            field.claim(hired.caller, zone_id=zone)
        refusals.append(refused.value.message)
    assert len(set(refusals)) == 1


def test_held_back_in_a_zone_is_of_that_zone(database: Database) -> None:
    field = Field(database, CommandsOptions(rates=RateRules({}, RateLimit(1, 60))))
    site = field.add_site()
    zone = field.add_zone(site)
    for _ in range(3):
        for miner in (field.add_miner(site), field.add_miner(site, zone)):
            field.send(site, miner)
    claimed = field.claim(field.hire(site, zone).caller)
    assert (len(claimed.commands), claimed.held_back) == (1, 2)


def test_a_secret_comes_along_where_commands_are_signed(database: Database) -> None:
    field = Field(database, CommandsOptions(is_signed=True))
    site = field.add_site()
    hired = field.hire(site)
    assert field.claim(hired.caller).sealed_secret is None
    field.send(site, field.add_miner(site))
    secrets = field.claim(hired.caller).sealed_secret
    assert secrets is not None
    assert field.parts.box.open(secrets) == hired.secret


def test_two_hundred_polls_at_once_grant_exactly_the_limit(field: Field, site: int) -> None:
    miner = field.add_miner(site)
    for _ in range(60):
        field.send(site, miner, "HASHING_DISABLE")
    collectors = [field.hire(site) for _ in range(8)]
    granted: list[tuple[str, int, int]] = []

    def poll(n: int) -> None:
        caller = collectors[n % 8].caller
        for row in field.claim(caller, limit=3).commands:
            granted.append((row.command_id, row.attempt, caller.device_id))

    threads = [threading.Thread(target=poll, args=(n,)) for n in range(200)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(granted) == 10
    assert len({(command_id, attempt) for command_id, attempt, _holder in granted}) == 10


@pytest.mark.parametrize("text", ["ready", "ready_in_zone"])
@pytest.mark.embedded
def test_a_claim_seeks_and_does_not_scan(field: Field, text: str) -> None:
    plan = Query("plan", "EXPLAIN QUERY PLAN " + getattr(claims.SQL, text).text)
    rows = field.database.read_now(lambda conn: conn.all(plan, keys="[1]", limit=1))
    steps = [row["detail"] for row in rows if "miner_commands" in row["detail"]]
    # The first type, the next type, the first of a type.
    assert len(steps) == 3
    assert all("SEARCH" in step and "ix_miner_commands_ready" in step for step in steps)
    assert "SEARCH c USING INTEGER PRIMARY KEY (rowid=?)" in [row["detail"] for row in rows]
    assert not [row["detail"] for row in rows if "TEMP B-TREE" in row["detail"]]
