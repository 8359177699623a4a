import asyncio

from restante.database.database import Database
from restante.database.writer import ForeignCommit
from restante.events.publishing import EventsToSign
from restante.events.token_parts import EventTokens, TokenOptions
from tests.events import bank
from tests.events.publishers import MASTER, OPTIONS, publish, rows

PATIENCE_SECONDS = 60.0


def test_it_serves_runs_and_sweeps(database: Database) -> None:
    parts = EventTokens(database, MASTER, TokenOptions(signer=OPTIONS))
    assert {route.path for route in parts.routes()} >= {"/admin/events", "/jwks.json", "/admin/events/keys"}
    assert [name for name, _run in parts.services()] == ["event signer", "event key rotation"]
    assert len(parts.sweeps()) == 1


def test_what_is_published_is_signed_when_its_commit_is_heard(database: Database) -> None:
    tpp = database.write_now(bank.add_client)

    async def story() -> None:
        parts = EventTokens(database, MASTER, TokenOptions(signer=OPTIONS, processes=1))
        running = [asyncio.create_task(run()) for _name, run in parts.services()]
        publish(database, tpp.client_id)
        parts.hear(EventsToSign(1))
        async with asyncio.timeout(PATIENCE_SECONDS):
            while (await asyncio.to_thread(rows, database))[0]["status"] != "ready":
                await asyncio.sleep(0.01)
        publish(database, tpp.client_id)
        parts.hear(ForeignCommit())
        async with asyncio.timeout(PATIENCE_SECONDS):
            while (await asyncio.to_thread(rows, database))[1]["status"] != "ready":
                await asyncio.sleep(0.01)
        assert parts.published == 1
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)

    asyncio.run(story())
