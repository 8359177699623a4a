from restante.commands.dispatch.lease_sweeper import LeaseSweeper
from restante.database.database import Database
from tests.commands.edge_fixture import CommandsHarness
from tests.conftest import ManualClock


async def test_sweep_settles_every_site_where_something_is_due(database: Database, clock: ManualClock) -> None:
    harness = CommandsHarness(database)
    commands = []
    for _ in range(3):
        site = harness.add_site()
        commands.append(harness.add_command(site, harness.add_miner(site), ttl_sec=100))
        harness.claim(harness.add_collector(site).caller)
    sweeper = LeaseSweeper(database, harness.trail)
    assert await sweeper.run_once() == 0
    clock.advance(60)
    assert await sweeper.run_once() == 3
    assert {harness.command(each.command_id)["status"] for each in commands} == {"pending"}
    clock.advance(40)
    assert await sweeper.run_once() == 3
    assert {harness.command(each.command_id)["status"] for each in commands} == {"expired"}
    assert await sweeper.run_once() == 0


async def test_sweep_repeats_until_nothing_is_due(database: Database, clock: ManualClock) -> None:
    harness = CommandsHarness(database)
    site = harness.add_site()
    miner = harness.add_miner(site)
    commands = [harness.add_command(site, miner, ttl_sec=10).command_id for _ in range(450)]
    clock.advance(10)
    assert await LeaseSweeper(database, harness.trail).run_once() == 1
    assert {harness.command(each)["status"] for each in commands} == {"expired"}
