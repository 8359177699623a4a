import pytest

from restante.commands.sites import collectors
from restante.commands.sites.collectors import CollectorFilter
from restante.core.errors import Conflict, NotFound
from restante.database.database import Database
from restante.database.paging import PageRequest
from restante.database.queries import Query
from restante.identity import revocation_counter, secret_tokens
from restante.identity.callers import CollectorRevoked
from restante.identity.clients import collector_tokens
from tests.commands.acks.test_acks import LeasedCommand, signed
from tests.commands.default_options import commands_options
from tests.commands.edge_fixture import ACTOR, CommandsHarness
from tests.conftest import START_MS, ManualClock


def test_token_and_secret_are_not_stored_in_plain_text(harness: CommandsHarness) -> None:
    site = harness.add_site()
    collector = harness.add_collector(site)
    assert collector.token.startswith("ed_")
    assert len(collector.secret) == 64
    bytes.fromhex(collector.secret)
    row = harness.database.read_now(lambda conn: conn.one(Query("q", "SELECT * FROM edge_devices")))
    assert row is not None
    stored = repr([row[column] for column in row.keys()])  # noqa: SIM118 — a row is no dictionary
    assert collector.token not in stored
    assert collector.secret not in stored
    assert harness.audit(site)[-1][0] == "collector.created"


def test_collectors_are_found_by_id_and_listed_by_site(harness: CommandsHarness) -> None:
    first, second = harness.add_site(), harness.add_site()
    ids = [harness.add_collector(site).caller.device_id for site in (first, second, first)]
    found = harness.database.read_now(collectors.find, ids[0])
    assert (found.id, found.site_id, found.zone_id, found.revoked_at) == (ids[0], first, None, None)

    def listed(site_id: int | None, page: PageRequest) -> list[int]:
        return [
            each.id for each in harness.database.read_now(collectors.list_page, CollectorFilter(site_id), page).items
        ]

    assert listed(None, PageRequest(10, 0)) == ids
    assert listed(first, PageRequest(10, 0)) == [ids[0], ids[2]]
    assert listed(None, PageRequest(1, ids[0])) == [ids[1]]
    with pytest.raises(NotFound):
        harness.database.read_now(collectors.find, 99)


def test_device_name_is_unique_within_a_site(harness: CommandsHarness) -> None:
    site = harness.add_site()
    for other in (site, harness.add_site()):
        harness.database.write_now(collectors.create, harness.trail, harness.component.box, other, None, "north", ACTOR)
    with pytest.raises(Conflict):
        harness.database.write_now(collectors.create, harness.trail, harness.component.box, site, None, "north", ACTOR)


def test_rotating_the_token_ends_the_old_token(harness: CommandsHarness) -> None:
    site = harness.add_site()
    collector = harness.add_collector(site)
    published: list[object] = []
    harness.database.on_commit(published.extend)
    before = harness.database.read_now(revocation_counter.current)
    token = harness.database.write_now(collectors.rotate_token, harness.trail, collector.caller.device_id, ACTOR)
    assert harness.database.read_now(collector_tokens.find, collector.token) is None
    found = harness.database.read_now(collector_tokens.find, token)
    assert found == collector.caller._replace(token_hash=secret_tokens.digest(token))
    assert published == [CollectorRevoked(collector.caller.device_id)]
    assert harness.database.read_now(revocation_counter.current) == before + 1
    assert harness.audit(site)[-1][0] == "collector.token_rotated"


def test_revoking_ends_the_token_and_happens_once(harness: CommandsHarness) -> None:
    site = harness.add_site()
    collector = harness.add_collector(site)
    published: list[object] = []
    harness.database.on_commit(published.extend)
    for _ in range(2):
        harness.database.write_now(collectors.revoke, harness.trail, collector.caller.device_id, ACTOR)
    assert harness.database.read_now(collector_tokens.find, collector.token) is None
    assert published == [CollectorRevoked(collector.caller.device_id)]
    assert [event for event, *_ in harness.audit(site)].count("collector.revoked") == 1
    with pytest.raises(Conflict):
        harness.database.write_now(collectors.rotate_token, harness.trail, collector.caller.device_id, ACTOR)


def test_old_secret_verifies_acks_only_during_the_overlap(database: Database, clock: ManualClock) -> None:
    held = LeasedCommand(database, commands_options(is_signed=True, lease_seconds=600))
    harness, device_id = held.harness, held.collector.caller.device_id
    new = database.write_now(collectors.rotate_secret, harness.trail, harness.component.box, device_id, 100, ACTOR)
    assert new != held.collector.secret
    assert database.read_now(collectors.find, device_id).old_secret_until == START_MS + 100_000
    clock.advance(99)
    assert held.accepted("running", **signed(held.collector.secret, status="running"))["command_status"] == "running"
    clock.advance(1)
    assert held.refused("succeeded", **signed(held.collector.secret)) == "SIGNATURE_INVALID"
    assert held.accepted("succeeded", **signed(new))["command_status"] == "succeeded"
    assert harness.claim(held.collector.caller).commands == []


def test_commands_are_signed_with_the_new_secret_at_once(database: Database) -> None:
    held = LeasedCommand(database, commands_options(is_signed=True))
    harness = held.harness
    new = database.write_now(
        collectors.rotate_secret, harness.trail, harness.component.box, held.collector.caller.device_id, 100, ACTOR
    )
    harness.add_command(held.site, held.miner)
    sealed = harness.claim(held.collector.caller).sealed_secret
    assert sealed is not None
    assert harness.component.box.open(sealed) == new


def test_last_seen_only_moves_forward(harness: CommandsHarness) -> None:
    collector = harness.add_collector(harness.add_site())
    for at in (5.0, 7.25, 6.0):
        harness.database.write_now(collectors.write_last_seen, [(collector.caller.device_id, at)])
    assert harness.database.read_now(collectors.find, collector.caller.device_id).last_seen_at == 7250
