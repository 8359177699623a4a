import asyncio

import pytest

from restante.commands.rules import rule_timer
from restante.commands.rules.rule_evaluation import FIRINGS_MAX
from tests.commands.reporting_fixture import ReportingFleet, sample
from tests.conftest import ManualClock


async def test_one_run_fires_all_due_rules(fleet: ReportingFleet, clock: ManualClock) -> None:
    miners = [fleet.add_miner(fleet.site_id) for _ in range(2 * FIRINGS_MAX + 1)]
    fleet.add_offline_rule(300)
    await fleet.report(*(sample(miner, 0) for miner in miners))
    clock.advance(300)
    assert await fleet.timer.run_once() == len(miners)
    assert await fleet.timer.run_once() == 0


async def test_timer_counts_its_evaluations(fleet: ReportingFleet, clock: ManualClock) -> None:
    fleet.add_offline_rule(300)
    await fleet.report(*(sample(miner, 0) for miner in fleet.miner_ids))
    before = fleet.counters.rule_evals
    clock.advance(300)
    await fleet.timer.run_once()
    assert fleet.counters.rule_evals - before == len(fleet.miner_ids)
    # Nothing is due now, so nothing is evaluated.
    await fleet.timer.run_once()
    assert fleet.counters.rule_evals - before == len(fleet.miner_ids)


async def test_service_runs_repeatedly(
    fleet: ReportingFleet, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rule_timer, "INTERVAL_SECONDS", 0.001)
    fleet.add_offline_rule(300)
    await fleet.report(sample(fleet.miner_ids[0], 0))
    service = asyncio.ensure_future(fleet.timer.run())
    clock.advance(300)
    async with asyncio.timeout(10):
        while not await fleet.database.read(lambda conn: fleet.commands()):
            await asyncio.sleep(0)
    service.cancel()
    await asyncio.gather(service, return_exceptions=True)
