import asyncio
import json

import pytest

from restante.commands.acks.ack_schema import ExtendBody
from restante.commands.acks.acks import AckResponse
from restante.commands.response_format import RESPONSE_FORMAT
from restante.database.database import Database
from restante.database.errors import DatabaseUnavailable
from restante.web.errors.error_responses import result_response
from restante.web.response import ApiResponse
from tests.commands.edge_fixture import CommandsHarness, ack_of


class AckHarness:
    def __init__(self, database: Database) -> None:
        self.harness = CommandsHarness(database)
        self.harness.subscribe(asyncio.get_running_loop())
        self.site = self.harness.add_site()
        self.miner = self.harness.add_miner(self.site)
        self.caller = self.harness.add_collector(self.site).caller
        self.service = self.harness.component.acks

    def add_leased_command(self) -> str:
        sent = self.harness.add_command(self.site, self.miner)
        self.harness.claim(self.caller)
        return sent.command_id

    async def ack(self, command_id: str, status: str) -> ApiResponse:
        replied: asyncio.Future[AckResponse | BaseException] = asyncio.get_running_loop().create_future()
        self.service.accept(self.caller, command_id, ack_of(status), replied.set_result)
        return result_response(RESPONSE_FORMAT, await replied)


async def test_ack_is_answered_when_durable_and_counted_once(database: Database) -> None:
    acks = AckHarness(database)
    command_id = acks.add_leased_command()
    for replayed in (False, True):
        response = await acks.ack(command_id, "completed")
        assert (response.status, json.loads(response.body)["replayed"]) == (200, replayed)
    assert acks.harness.command(command_id)["status"] == "succeeded"
    assert acks.harness.component.counters.acked.counts == {(str(acks.site), "succeeded"): 1}


async def test_refused_ack_is_answered_and_audited_but_not_counted(database: Database) -> None:
    acks = AckHarness(database)
    response = await acks.ack("cmd_none", "failed")
    assert (response.status, json.loads(response.body)["error"]) == (404, "COMMAND_NOT_FOUND")
    assert acks.harness.audit(acks.site)[-1][0] == "ack.refused"
    assert acks.harness.component.counters.acked.counts == {}


async def test_failures_are_counted_by_their_code(database: Database) -> None:
    acks = AckHarness(database)
    await acks.ack(acks.add_leased_command(), "rejected")
    await asyncio.sleep(0)
    assert acks.harness.component.counters.failed.counts == {("REJECTED",): 1}


async def test_too_long_command_id_is_refused_without_a_write(database: Database) -> None:
    acks = AckHarness(database)
    writes = database.writes
    assert (await acks.ack("c" * 129, "failed")).status == 404
    assert database.writes == writes


async def test_unavailable_database_is_an_error(database: Database) -> None:
    acks = AckHarness(database)
    database.close()
    assert (await acks.ack("cmd_1", "failed")).status == 503
    with pytest.raises(DatabaseUnavailable):
        await acks.service.extend(acks.caller, "cmd_1", ExtendBody(5))
