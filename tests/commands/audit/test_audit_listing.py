import msgspec

from restante.commands.audit import audit_listing
from restante.commands.audit.audit_listing import AuditFilter
from restante.commands.lifecycle import cancellation
from restante.database.paging import PageRequest
from tests.commands.operator_fixture import MinerFleet
from tests.conftest import START_MS


def listed(fleet: MinerFleet, filters: AuditFilter, limit: int = 100, after: int = 0) -> list[tuple[int, str]]:
    page = fleet.database.read_now(audit_listing.list_page, filters, PageRequest(limit, after))
    return [(row.site_id, row.event) for row in page.items]


def test_rows_are_listed_newest_first_in_pages(fleet: MinerFleet) -> None:
    no_filter = AuditFilter()
    rows = listed(fleet, no_filter)
    assert len(rows) == fleet.count("command_audit")
    assert rows[0] == (fleet.other_site, "miner.created")
    page = fleet.database.read_now(audit_listing.list_page, no_filter, PageRequest(2, 0))
    assert listed(fleet, no_filter, 2, page.next or 0) == rows[2:4]


def test_rows_are_filtered_by_site_command_actor_event_and_time(fleet: MinerFleet) -> None:
    fleet.clock.advance(10)
    first = fleet.create("ada")
    second = fleet.create("bob", site_id=fleet.other_site, miner_id=fleet.other_site_miner)
    fleet.clock.advance(10)
    fleet.write(cancellation.cancel, first.command_id, "bob")
    created, cancelled = "command.created", "command.cancelled"
    north, south = fleet.site_id, fleet.other_site
    for filters, expected in (
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
        assert listed(fleet, filters) == expected


def test_history_of_a_command_is_oldest_first(fleet: MinerFleet) -> None:
    command = fleet.create("ada")
    fleet.clock.advance(0.25)
    fleet.write(cancellation.cancel, command.command_id, "bob", "no more")
    shown = fleet.show(command.command_id)
    history = shown.history
    assert shown.history_next is None
    assert [row.event for row in history] == ["command.created", "command.cancelled"]
    assert history[1].at == "2027-01-15T08:00:00.250Z"
    assert msgspec.json.decode(history[1].detail) == {"reason": "no more", "result_code": "CANCELLED"}
