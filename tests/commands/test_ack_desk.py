import asyncio
import json

from restante.commands.ack_body import ExtendBody
from restante.database.database import Database
from restante.web.answer import Answer
from tests.commands.field import Field, read


class Desk:
    def __init__(self, database: Database) -> None:
        self.field = Field(database)
        self.field.listen(asyncio.get_running_loop())
        self.site = self.field.add_site()
        self.miner = self.field.add_miner(self.site)
        self.caller = self.field.hire(self.site).caller
        self.desk = self.field.parts.desk

    def held(self) -> str:
        sent = self.field.send(self.site, self.miner)
        self.field.claim(self.caller)
        return sent.command_id

    async def ack(self, command_id: str, status: str) -> Answer:
        answered: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self.desk.take(self.caller, command_id, read(status), answered.set_result)
        return await answered


async def test_an_ack_is_answered_when_it_is_durable_and_counted_once(database: Database) -> None:
    desk = Desk(database)
    command_id = desk.held()
    for replayed in (False, True):
        answer = await desk.ack(command_id, "completed")
        assert (answer.status, json.loads(answer.body)["replayed"]) == (200, replayed)
    assert desk.field.command(command_id)["status"] == "succeeded"
    assert desk.field.parts.totals.acked.counts == {(str(desk.site), "succeeded"): 1}


async def test_a_refusal_is_answered_recorded_and_not_counted(database: Database) -> None:
    desk = Desk(database)
    answer = await desk.ack("cmd_none", "failed")
    assert (answer.status, json.loads(answer.body)["error"]) == (404, "COMMAND_NOT_FOUND")
    assert desk.field.audit(desk.site)[-1][0] == "ack.refused"
    assert desk.field.parts.totals.acked.counts == {}


async def test_failures_are_counted_by_their_code(database: Database) -> None:
    desk = Desk(database)
    await desk.ack(desk.held(), "rejected")
    await asyncio.sleep(0)
    assert desk.field.parts.totals.failed.counts == {("REJECTED",): 1}


async def test_a_name_too_long_for_any_command_is_not_even_looked_up(database: Database) -> None:
    desk = Desk(database)
    writes = database.writes
    assert (await desk.ack("c" * 129, "failed")).status == 404
    assert database.writes == writes


async def test_a_database_that_is_away_is_503(database: Database) -> None:
    desk = Desk(database)
    database.close()
    assert (await desk.ack("cmd_1", "failed")).status == 503
    answered: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
    desk.desk.extend(desk.caller, "cmd_1", ExtendBody(5), answered.set_result)
    assert (await answered).status == 503
