import pytest

from restante.commands.dispatch import ready_commands
from restante.commands.dispatch.ready_commands import CommandQueue, ReadyCommand, count_waiting, prefetch_ready
from restante.database.connection import Connection
from restante.database.queries import Query
from tests.commands.edge_fixture import CommandsHarness


def test_columns_of_the_query_are_the_fields_of_a_ready_command(harness: CommandsHarness) -> None:
    site = harness.add_site()
    harness.add_command(site, harness.add_miner(site))
    (row,) = harness.database.read_now(
        lambda conn: conn.all(ready_commands.SQL.ready, sites=f"[{site}]", zones="[]", limit=2, one_per_miner=1)
    )
    assert tuple(row.keys()) == ReadyCommand.__struct_fields__


def test_each_queue_gets_its_commands_in_order_up_to_the_limit_per_type_and_zone(harness: CommandsHarness) -> None:
    sites = [harness.add_site(), harness.add_site()]
    zone, other_zone = harness.add_zone(sites[0]), harness.add_zone(sites[1])
    for site_id, zone_id in ((sites[0], None), (sites[0], zone), (sites[1], None), (sites[1], other_zone)):
        miner = harness.add_miner(site_id, zone_id)
        for priority in range(3):
            harness.add_command(site_id, miner, priority=priority)
    whole, part, other_part = (
        CommandQueue(sites[0], None),
        CommandQueue(sites[0], zone),
        CommandQueue(sites[1], other_zone),
    )
    limits = {sites[0]: 2, sites[1]: 3}
    ready = harness.database.read_now(lambda conn: prefetch_ready(conn, [whole, part, other_part], limits)())
    assert {queue: [command.priority for command in commands] for queue, commands in ready.items()} == {
        whole: [2, 2, 1, 1],
        part: [2, 1],
        other_part: [2, 1, 0],
    }
    assert {command.zone_id for command in ready[part]} == {zone}


def test_waiting_commands_of_a_type_are_counted_in_the_given_zones(
    harness: CommandsHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    site = harness.add_site()
    zone, empty_zone = harness.add_zone(site), harness.add_zone(site)
    for _ in range(3):
        harness.add_command(site, harness.add_miner(site, zone))
    harness.add_command(site, harness.add_miner(site, zone), "MINER_RESTART")

    def waiting(conn: Connection) -> list[int]:
        return [count_waiting(conn, zones, "POWER_MODE").waiting for zones in ([zone, empty_zone], [empty_zone], [])]

    assert harness.database.read_now(waiting) == [3, 0, 0]
    monkeypatch.setattr(ready_commands, "WAITING_COUNT_MAX", 2)
    assert harness.database.read_now(waiting) == [2, 0, 0]


@pytest.mark.embedded
def test_ready_commands_are_found_by_seeks(harness: CommandsHarness) -> None:
    plan = Query("plan", "EXPLAIN QUERY PLAN " + ready_commands.SQL.ready.text)
    rows = harness.database.read_now(lambda conn: conn.all(plan, sites="[1]", zones="[1]", limit=1, one_per_miner=1))
    steps = [row["detail"] for row in rows if "miner_commands" in row["detail"]]
    busy = [step for step in steps if "busy" in step]
    assert busy == ["SEARCH busy USING INDEX ix_miner_commands_busy (miner_id=?)"]
    # The first type, the next type, the first commands of a type.
    assert len(steps) == 4
    assert all("SEARCH" in step and "ix_miner_commands_ready" in step for step in steps if step not in busy)
    assert "SEARCH c USING INTEGER PRIMARY KEY (rowid=?)" in [row["detail"] for row in rows]
    assert not [row["detail"] for row in rows if "TEMP B-TREE" in row["detail"]]


@pytest.mark.embedded
def test_waiting_commands_are_counted_by_a_seek(harness: CommandsHarness) -> None:
    plan = Query("plan", "EXPLAIN QUERY PLAN " + ready_commands.SQL.count_waiting.text)
    rows = harness.database.read_now(lambda conn: conn.all(plan, zones="[1]", command_type="SET_FAN", count_max=1))
    steps = [row["detail"] for row in rows if "miner_commands" in row["detail"]]
    assert len(steps) == 1
    assert "SEARCH" in steps[0]
    assert "ix_miner_commands_ready" in steps[0]
