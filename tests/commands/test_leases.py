import pytest

from restante.commands import leases
from restante.commands.leases import Moments, SettleOptions, moments_of, settle, sites_due
from restante.commands.queue import CommandsChanged
from restante.core.command_states import State
from restante.database.database import Database
from restante.database.queries import Query
from tests.commands.field import Field
from tests.conftest import START_MS, ManualClock


@pytest.fixture
def field(database: Database) -> Field:
    return Field(database)


@pytest.fixture
def site(field: Field) -> int:
    return field.add_site()


def test_an_undisturbed_site_has_nothing_due(field: Field, site: int) -> None:
    heard: list[object] = []
    field.database.on_commit(heard.extend)
    assert field.database.write_now(settle, field.trail, site) == Moments(None, None, None)
    field.send(site, field.add_miner(site))
    heard.clear()
    assert field.database.write_now(settle, field.trail, site) == (START_MS + 3_600_000, None, None)
    assert heard == []


def test_a_command_expires_at_its_moment(field: Field, site: int, clock: ManualClock) -> None:
    sent = field.send(site, field.add_miner(site), ttl_sec=60)
    clock.advance(59.999)
    field.database.write_now(settle, field.trail, site)
    assert field.command(sent.command_id)["status"] == "pending"
    clock.advance(0.001)
    field.database.write_now(settle, field.trail, site)
    row = field.command(sent.command_id)
    assert (row["status"], row["finished_at"]) == ("expired", START_MS + 60_000)
    assert field.audit(site)[-1] == ("command.expired", sent.command_id, "pending", "expired")


def test_a_leased_command_expires_too(field: Field, site: int, clock: ManualClock) -> None:
    sent = field.send(site, field.add_miner(site), ttl_sec=30)
    hired = field.hire(site)
    field.claim(hired.caller)
    clock.advance(30)
    field.database.write_now(settle, field.trail, site)
    assert field.command(sent.command_id)["status"] == "expired"


def test_a_lost_lease_is_offered_again_after_its_back_off(field: Field, site: int, clock: ManualClock) -> None:
    sent = field.send(site, field.add_miner(site))
    hired = field.hire(site)
    for retry, (lease_end, back_off) in enumerate([(60, 30), (60, 60), (60, 120)], start=1):
        assert len(field.claim(hired.caller).commands) == 1
        end = clock.now_ms + lease_end * 1000
        clock.advance(lease_end + 7)
        field.database.write_now(settle, field.trail, site)
        row = field.command(sent.command_id)
        assert (row["status"], row["retry_count"], row["lease_owner"]) == ("pending", retry, None)
        assert row["next_attempt_at"] == end + back_off * 1000
        assert field.audit(site)[-1] == ("command.lease_lost", sent.command_id, "dispatched", "pending")
        clock.now_ms = end + back_off * 1000 - 1
        assert field.claim(hired.caller).commands == []
        clock.now_ms += 1
    field.claim(hired.caller)
    clock.advance(60)
    heard: list[object] = []
    field.database.on_commit(heard.extend)
    field.database.write_now(settle, field.trail, site)
    row = field.command(sent.command_id)
    assert (row["status"], row["result_code"]) == ("failed", "LEASE_EXPIRED")
    assert field.audit(site)[-1] == ("command.given_up", sent.command_id, "dispatched", "failed")
    assert leases.CommandFailed(site, "LEASE_EXPIRED") in heard


def test_a_back_off_that_has_passed_meanwhile_is_no_wait(field: Field, site: int, clock: ManualClock) -> None:
    sent = field.send(site, field.add_miner(site))
    hired = field.hire(site)
    field.claim(hired.caller)
    clock.advance(90)
    assert [command.command_id for command in field.claim(hired.caller).commands] == [sent.command_id]


def test_settling_announces_what_may_be_there(field: Field, site: int, clock: ManualClock) -> None:
    field.send(site, field.add_miner(site))
    field.claim(field.hire(site).caller)
    clock.advance(60)
    heard: list[object] = []
    field.database.on_commit(heard.extend)
    field.database.write_now(settle, field.trail, site)
    assert CommandsChanged(site) in heard


def test_settling_is_bounded_and_the_rest_shows(field: Field, site: int, clock: ManualClock) -> None:
    miner = field.add_miner(site)
    for _ in range(5):
        field.send(site, miner, ttl_sec=10)
    clock.advance(10)
    moments = field.database.write_now(settle, field.trail, site, SettleOptions(rows_max=2))
    assert moments.expiring is not None
    assert moments.expiring <= clock.now_ms
    field.database.write_now(settle, field.trail, site)
    assert field.database.read_now(lambda conn: moments_of(conn, [site])()) == {site: (None, None, None)}


@pytest.mark.parametrize("name", ["moments", "due_to_expire", "leases_run_out", "make_ready", "sites_due"])
@pytest.mark.embedded
def test_settling_seeks_and_does_not_scan(field: Field, name: str) -> None:
    plan = Query("plan", "EXPLAIN QUERY PLAN " + getattr(leases.SQL, name).text)
    rows = field.database.read_now(lambda conn: conn.all(plan, sites="[1]", site_id=1, now_ms=1, rows_max=1))
    steps = [row["detail"] for row in rows if "miner_commands" in row["detail"]]
    assert steps
    assert all("SEARCH" in step for step in steps), steps
    assert not [row["detail"] for row in rows if "TEMP B-TREE" in row["detail"]]


def test_finds_the_sites_where_something_is_due(field: Field, clock: ManualClock) -> None:
    expiring, leased, delayed, quiet = (field.add_site() for _ in range(4))
    for site in (expiring, leased, delayed, quiet):
        field.send(site, field.add_miner(site), ttl_sec=40 if site == expiring else 3600)
    field.claim(field.hire(leased).caller)
    hired = field.hire(delayed)
    given = field.claim(hired.caller)
    field.ack(hired.caller, given.commands[0].command_id, "failed")
    assert field.database.read_now(sites_due) == []
    clock.advance(60)
    assert field.database.read_now(sites_due) == [expiring, leased, delayed]
    for site in (expiring, leased, delayed):
        field.database.write_now(settle, field.trail, site)
    assert field.database.read_now(sites_due) == []
    assert State(field.command(given.commands[0].command_id)["status"]) is State.pending
