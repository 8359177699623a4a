import asyncio

import pytest

from restante.commands import rule_timer
from restante.commands.rule_evaluation import FIRINGS_MAX
from restante.database.database import Database
from tests.commands.reporting import World, sample
from tests.conftest import ManualClock


@pytest.fixture
def world(database: Database, clock: ManualClock) -> World:
    return World(database, clock)


async def test_one_run_does_all_that_is_due(world: World, clock: ManualClock) -> None:
    miners = [world.add_miner(world.site_id) for _ in range(2 * FIRINGS_MAX + 1)]
    world.add_offline_rule(300)
    await world.report(*(sample(miner, 0) for miner in miners))
    clock.advance(300)
    assert await world.timer.run_once() == len(miners)
    assert await world.timer.run_once() == 0


async def test_what_the_timer_looks_at_is_counted(world: World, clock: ManualClock) -> None:
    world.add_offline_rule(300)
    await world.report(*(sample(miner, 0) for miner in world.miner_ids))
    before = world.totals.rule_evals
    clock.advance(300)
    await world.timer.run_once()
    assert world.totals.rule_evals - before == len(world.miner_ids)
    # Nothing is due now: nothing is looked at.
    await world.timer.run_once()
    assert world.totals.rule_evals - before == len(world.miner_ids)


async def test_the_service_goes_on(world: World, clock: ManualClock, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rule_timer, "INTERVAL_SECONDS", 0.001)
    world.add_offline_rule(300)
    await world.report(sample(world.miner_ids[0], 0))
    service = asyncio.ensure_future(world.timer.run())
    clock.advance(300)
    async with asyncio.timeout(10):
        while not await world.database.read(lambda conn: commands_in(world)):
            await asyncio.sleep(0)
    service.cancel()
    await asyncio.gather(service, return_exceptions=True)


def commands_in(world: World) -> list[str]:
    return world.commands()
