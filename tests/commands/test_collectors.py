import pytest

from restante.commands import collectors
from restante.commands.parts import CommandsOptions
from restante.core.errors import Conflict, NotFound
from restante.database.database import Database
from restante.database.queries import Query
from restante.identity import collector_tokens, revisions, secret_tokens
from restante.identity.callers import CollectorRevoked
from tests.commands.field import ACTOR, Field
from tests.commands.test_acks import Held, signed
from tests.conftest import START_MS, ManualClock


@pytest.fixture
def field(database: Database) -> Field:
    return Field(database)


def test_a_token_and_a_secret_are_told_once_and_stored_otherwise(field: Field) -> None:
    site = field.add_site()
    hired = field.hire(site)
    assert hired.token.startswith("ed_")
    assert len(hired.secret) == 64
    bytes.fromhex(hired.secret)
    row = field.database.read_now(lambda conn: conn.one(Query("q", "SELECT * FROM edge_devices")))
    assert row is not None
    stored = repr([row[column] for column in row.keys()])  # noqa: SIM118 — a row is no dictionary
    assert hired.token not in stored
    assert hired.secret not in stored
    assert field.audit(site)[-1][0] == "collector.created"


def test_finds_and_lists(field: Field) -> None:
    first, second = field.add_site(), field.add_site()
    ids = [field.hire(site).caller.device_id for site in (first, second, first)]
    found = field.database.read_now(collectors.find, ids[0])
    assert (found.id, found.site_id, found.zone_id, found.revoked_at) == (ids[0], first, None, None)
    assert [each.id for each in field.database.read_now(collectors.list_some, None, 0, 10)] == ids
    assert [each.id for each in field.database.read_now(collectors.list_some, first, 0, 10)] == [ids[0], ids[2]]
    assert [each.id for each in field.database.read_now(collectors.list_some, None, ids[0], 1)] == [ids[1]]
    with pytest.raises(NotFound):
        field.database.read_now(collectors.find, 99)


def test_a_name_is_of_one_collector_of_a_site(field: Field) -> None:
    site = field.add_site()
    for other in (site, field.add_site()):
        field.database.write_now(collectors.create, field.trail, field.parts.box, other, None, "north", ACTOR)
    with pytest.raises(Conflict):
        field.database.write_now(collectors.create, field.trail, field.parts.box, site, None, "north", ACTOR)


def test_rotating_the_token_ends_the_old_one(field: Field) -> None:
    site = field.add_site()
    hired = field.hire(site)
    heard: list[object] = []
    field.database.on_commit(heard.extend)
    before = field.database.read_now(revisions.current)
    token = field.database.write_now(collectors.rotate_token, field.trail, hired.caller.device_id, ACTOR)
    assert field.database.read_now(collector_tokens.find, hired.token) is None
    found = field.database.read_now(collector_tokens.find, token)
    assert found == hired.caller._replace(token_hash=secret_tokens.digest(token))
    assert heard == [CollectorRevoked(hired.caller.device_id)]
    assert field.database.read_now(revisions.current) == before + 1
    assert field.audit(site)[-1][0] == "collector.token_rotated"


def test_revoking_ends_the_token_and_is_done_once(field: Field) -> None:
    site = field.add_site()
    hired = field.hire(site)
    heard: list[object] = []
    field.database.on_commit(heard.extend)
    for _ in range(2):
        field.database.write_now(collectors.revoke, field.trail, hired.caller.device_id, ACTOR)
    assert field.database.read_now(collector_tokens.find, hired.token) is None
    assert heard == [CollectorRevoked(hired.caller.device_id)]
    assert [event for event, *_ in field.audit(site)].count("collector.revoked") == 1
    with pytest.raises(Conflict):
        field.database.write_now(collectors.rotate_token, field.trail, hired.caller.device_id, ACTOR)


def test_an_old_secret_verifies_acks_for_the_overlap_only(database: Database, clock: ManualClock) -> None:
    held = Held(database, CommandsOptions(is_signed=True, lease_seconds=600))
    field, device_id = held.field, held.hired.caller.device_id
    new = database.write_now(collectors.rotate_secret, field.trail, field.parts.box, device_id, 100, ACTOR)
    assert new != held.hired.secret
    assert database.read_now(collectors.find, device_id).old_secret_until == START_MS + 100_000
    clock.advance(99)
    assert held.taken("running", **signed(held.hired.secret, status="running"))["command_status"] == "running"
    clock.advance(1)
    assert held.refused("succeeded", **signed(held.hired.secret)) == "SIGNATURE_INVALID"
    assert held.taken("succeeded", **signed(new))["command_status"] == "succeeded"
    assert field.claim(held.hired.caller).commands == []


def test_commands_are_signed_with_the_new_secret_at_once(database: Database) -> None:
    held = Held(database, CommandsOptions(is_signed=True))
    field = held.field
    new = database.write_now(
        collectors.rotate_secret, field.trail, field.parts.box, held.hired.caller.device_id, 100, ACTOR
    )
    field.send(held.site, held.miner)
    sealed = field.claim(held.hired.caller).sealed_secret
    assert sealed is not None
    assert field.parts.box.open(sealed) == new


def test_last_seen_moves_forward_only(field: Field) -> None:
    hired = field.hire(field.add_site())
    for at in (5.0, 7.25, 6.0):
        field.database.write_now(collectors.write_last_seen, [(hired.caller.device_id, at)])
    assert field.database.read_now(collectors.find, hired.caller.device_id).last_seen_at == 7250
