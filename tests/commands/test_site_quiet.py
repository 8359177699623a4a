from collections.abc import Iterator

import pytest

from restante.commands import leases
from restante.commands.claims import Claim, ClaimOptions, claim
from restante.commands.site_quiet import is_quiet, quiet_of
from restante.database.connection import Connection
from restante.database.database import Database
from tests.commands.field import Field, Hired
from tests.commands.hints import misled
from tests.conftest import START_MS, ManualClock

HOUR_MS = 3_600_000


@pytest.fixture
def field(database: Database) -> Iterator[Field]:
    yield Field(database)
    assert misled(database) == []


@pytest.fixture
def site(field: Field) -> int:
    return field.add_site()


@pytest.fixture
def hired(field: Field, site: int) -> Hired:
    return field.hire(site)


def known(field: Field) -> dict[int, int | None]:
    return field.database.read_now(lambda conn: quiet_of(conn, [1, 2, 3])())


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> list[list[int]]:
    """Which sites somebody has looked at since."""
    looked: list[list[int]] = []
    look = leases.moments_of

    def counted(conn: Connection, sites: list[int]) -> object:
        looked.append(list(sites))
        return look(conn, sites)

    monkeypatch.setattr(leases, "moments_of", counted)
    return looked


@pytest.mark.parametrize(
    ("quiet", "is_so"), [({}, False), ({1: None}, True), ({1: START_MS}, False), ({1: START_MS + 1}, True)]
)
def test_a_site_is_quiet_until_its_moment(quiet: dict[int, int | None], is_so: bool) -> None:
    assert is_quiet(quiet, 1, START_MS) is is_so


def test_of_a_site_nothing_is_known_until_somebody_has_looked(field: Field, site: int, hired: Hired) -> None:
    field.send(site, field.add_miner(site), ttl_sec=100)
    assert known(field) == {}
    field.claim(hired.caller, 1)
    assert known(field) == {site: START_MS + 60_000}


def test_a_poll_of_a_site_that_never_had_commands_writes_nothing(field: Field, hired: Hired) -> None:
    field.claim(hired.caller)
    assert known(field) == {}


def test_a_site_where_all_is_done_is_quiet_until_something_is_made(
    field: Field, site: int, hired: Hired, clock: ManualClock
) -> None:
    miner = field.add_miner(site)
    sent = field.send(site, miner)
    field.claim(hired.caller)
    field.ack(hired.caller, sent.command_id, "succeeded")
    clock.advance(60)
    field.claim(hired.caller)
    assert known(field) == {site: None}
    field.send(site, miner)
    assert known(field) == {site: clock.now_ms + HOUR_MS}
    field.send(site, miner, ttl_sec=7200)
    assert known(field) == {site: clock.now_ms + HOUR_MS}


def test_a_quiet_site_is_not_looked_at(field: Field, site: int, hired: Hired, looks: list[list[int]]) -> None:
    miner = field.add_miner(site)
    for _ in range(3):
        sent = field.send(site, miner)
        assert len(field.claim(hired.caller).commands) == 1
        field.ack(hired.caller, sent.command_id, "succeeded")
    assert looks == [[site]]


def test_it_is_looked_at_when_its_moment_comes_though_nothing_may_be_due(
    field: Field, site: int, hired: Hired, looks: list[list[int]], clock: ManualClock
) -> None:
    sent = field.send(site, field.add_miner(site))
    field.claim(hired.caller)
    field.ack(hired.caller, sent.command_id, "succeeded")
    clock.advance(59.999)
    assert field.claim(hired.caller).look_again_ms == clock.now_ms + 1
    assert looks == [[site]]
    clock.advance(0.001)
    assert field.claim(hired.caller).look_again_ms is None
    assert (looks, known(field)) == ([[site]] * 2, {site: None})


@pytest.mark.parametrize("status", ["failed", "deferred"])
def test_a_back_off_is_known(field: Field, site: int, hired: Hired, clock: ManualClock, status: str) -> None:
    sent = field.send(site, field.add_miner(site))
    field.claim(hired.caller)
    field.ack(hired.caller, sent.command_id, status)
    assert known(field) == {site: START_MS + 30_000}
    clock.advance(30)
    assert len(field.claim(hired.caller).commands) == 1


def test_a_shorter_lease_is_known(field: Field, site: int, hired: Hired, clock: ManualClock) -> None:
    """As that of a node that is set otherwise."""
    lost, _ = (field.send(site, field.add_miner(site), priority=priority) for priority in (1, 0))
    taken = field.database.write_now(claim, field.trail, ClaimOptions(300), Claim(hired.caller, None, 1))
    assert [each.command_id for each in taken.commands] == [lost.command_id]
    clock.advance(1)
    assert len(field.claim(hired.caller).commands) == 1
    assert known(field) == {site: START_MS + 61_000}


def test_what_settling_leaves_over_is_due_at_once(
    field: Field, site: int, hired: Hired, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(leases, "DEFAULT_OPTIONS", leases.SettleOptions(rows_max=1))
    monkeypatch.setattr(leases.settle_due, "__defaults__", (leases.SettleOptions(rows_max=1),))
    miner = field.add_miner(site)
    sent = [field.send(site, miner, ttl_sec=10).command_id for _ in range(3)]
    clock.advance(10)
    for left in (2, 1, 0):
        assert field.claim(hired.caller).commands == []
        assert sum(field.command(each)["status"] == "pending" for each in sent) == left


def test_a_claim_that_is_undone_leaves_what_was_known(field: Field, site: int, hired: Hired) -> None:
    miner = field.add_miner(site)
    sent = field.send(site, miner)
    field.claim(hired.caller)
    field.ack(hired.caller, sent.command_id, "failed")
    field.send(site, miner)

    def fails(conn: Connection) -> None:
        claim(conn, field.trail, ClaimOptions(lease_seconds=5), Claim(hired.caller, None, 5))
        raise RuntimeError("after all")

    with pytest.raises(RuntimeError):
        field.database.write_now(fails)
    assert known(field) == {site: START_MS + 30_000}
