import msgspec
import pytest

from restante.commands import audit_listing, cancelling
from restante.commands.audit_listing import AuditFilter
from restante.database.database import Database
from restante.web.paging import Window
from tests.commands.operators import World
from tests.conftest import START_MS, ManualClock


@pytest.fixture
def world(database: Database, clock: ManualClock) -> World:
    return World(database, clock)


def found(world: World, wanted: AuditFilter, limit: int = 100, after: int = 0) -> list[tuple[int, str]]:
    page = world.database.read_now(audit_listing.list_page, wanted, Window(limit, after))
    return [(row.site_id, row.event) for row in page.items]


def test_newest_first_in_pages(world: World) -> None:
    everything = AuditFilter()
    rows = found(world, everything)
    assert len(rows) == world.count("command_audit")
    assert rows[0] == (world.other_site, "miner.created")
    page = world.database.read_now(audit_listing.list_page, everything, Window(2, 0))
    assert found(world, everything, 2, page.next or 0) == rows[2:4]


def test_by_site_command_actor_event_and_time(world: World) -> None:
    world.clock.advance(10)
    first = world.create("ada")
    second = world.create("bob", site_id=world.other_site, miner_id=world.foreign_miner)
    world.clock.advance(10)
    world.write(cancelling.cancel, first.command_id, "bob")
    created, cancelled = "command.created", "command.cancelled"
    north, south = world.site_id, world.other_site
    for wanted, expected in (
        (AuditFilter(command_id=first.command_id), [(north, cancelled), (north, created)]),
        (AuditFilter(command_id=first.command_id, actor="bob"), [(north, cancelled)]),
        (AuditFilter(command_id=first.command_id, site_id=south), []),
        (AuditFilter(command_id=second.command_id, event=created), [(south, created)]),
        (AuditFilter(actor="bob"), [(north, cancelled), (south, created)]),
        (AuditFilter(event=created), [(south, created), (north, created)]),
        (AuditFilter(site_id=north, since_ms=START_MS + 10_000), [(north, cancelled), (north, created)]),
        (AuditFilter(since_ms=START_MS + 20_000), [(north, cancelled)]),
        (AuditFilter(since_ms=START_MS + 10_000, until_ms=START_MS + 20_000), [(south, created), (north, created)]),
        (AuditFilter(actor="nobody"), []),
    ):
        assert found(world, wanted) == expected


def test_the_history_of_a_command_goes_forward(world: World) -> None:
    made = world.create("ada")
    world.clock.advance(0.25)
    world.write(cancelling.cancel, made.command_id, "bob", "no more")
    history = world.database.read_now(audit_listing.history_of, made.command_id)
    assert [row.event for row in history] == ["command.created", "command.cancelled"]
    assert history[1].at == "2027-01-15T08:00:00.250Z"
    assert msgspec.json.decode(history[1].detail) == {"reason": "no more", "result_code": "CANCELLED"}
