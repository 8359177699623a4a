import asyncio

from restante.database.commit_events import ForeignCommit
from restante.database.database import Database
from restante.events.publishing.publishing import EventsToSign
from restante.events.signing.component import SigningComponent
from tests.components import handle
from tests.events import inbox_fixture
from tests.events.default_options import remote_keys, signing_options
from tests.events.publish_fixture import MASTER, OPTIONS, inbox_rows, publish

TIMEOUT_SECONDS = 60.0


def test_component_has_routes_services_and_sweeps(database: Database) -> None:
    component = SigningComponent(database, MASTER, signing_options(signer=OPTIONS), remote_keys(database))
    assert {route.path for route in component.routes()} >= {"/admin/events", "/jwks.json", "/admin/events/keys"}
    assert [service.name for service in component.services()] == ["event signer", "event key rotation"]
    assert len(component.sweeps()) == 1


def test_published_event_is_signed_after_a_commit_event(database: Database) -> None:
    client = database.write_now(inbox_fixture.add_client)

    async def run_component() -> None:
        component = SigningComponent(
            database, MASTER, signing_options(signer=OPTIONS, processes=1), remote_keys(database)
        )
        running = [asyncio.create_task(service.run()) for service in component.services()]
        publish(database, client.client_id)
        handle(component, EventsToSign(1))
        async with asyncio.timeout(TIMEOUT_SECONDS):
            while (await asyncio.to_thread(inbox_rows, database))[0]["status"] != "ready":
                await asyncio.sleep(0.01)
        publish(database, client.client_id)
        handle(component, ForeignCommit())
        async with asyncio.timeout(TIMEOUT_SECONDS):
            while (await asyncio.to_thread(inbox_rows, database))[1]["status"] != "ready":
                await asyncio.sleep(0.01)
        assert component.published_count == 1
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)

    asyncio.run(run_component())
