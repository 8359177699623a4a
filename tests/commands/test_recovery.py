from restante.commands.recovery import LeaseRecovery
from restante.database.database import Database
from tests.commands.field import Field
from tests.conftest import ManualClock


async def test_settles_every_site_where_something_is_due(database: Database, clock: ManualClock) -> None:
    field = Field(database)
    sent = []
    for _ in range(3):
        site = field.add_site()
        sent.append(field.send(site, field.add_miner(site), ttl_sec=100))
        field.claim(field.hire(site).caller)
    recovery = LeaseRecovery(database, field.trail)
    assert await recovery.run_once() == 0
    clock.advance(60)
    assert await recovery.run_once() == 3
    assert {field.command(each.command_id)["status"] for each in sent} == {"pending"}
    clock.advance(40)
    assert await recovery.run_once() == 3
    assert {field.command(each.command_id)["status"] for each in sent} == {"expired"}
    assert await recovery.run_once() == 0


async def test_goes_on_where_there_is_more_than_one_round(database: Database, clock: ManualClock) -> None:
    field = Field(database)
    site = field.add_site()
    miner = field.add_miner(site)
    sent = [field.send(site, miner, ttl_sec=10).command_id for _ in range(450)]
    clock.advance(10)
    assert await LeaseRecovery(database, field.trail).run_once() == 1
    assert {field.command(each)["status"] for each in sent} == {"expired"}
