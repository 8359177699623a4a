from restante.commands.dispatch.settlement import CommandFailed
from restante.commands.lifecycle.ordering import CommandsChanged
from restante.commands.polling.site_waiters import EmptyUntil
from restante.commands.sites.collectors import SecretBox
from restante.database.commit_events import ForeignCommit
from restante.database.database import Database
from restante.identity.master_key import MasterKey
from tests.commands.default_options import commands_options
from tests.commands.edge_fixture import CommandsHarness
from tests.components import handle


async def test_commit_events_invalidate_waiters_and_count_failures(database: Database) -> None:
    harness = CommandsHarness(database)
    waiters = harness.component.poll.waiters
    for event in (CommandsChanged(1), ForeignCommit()):
        waiters.learn(1, None, EmptyUntil(float("inf"), 0), waiters.last_notified(1))
        assert waiters.empty_until(1, None)
        handle(harness.component, event)
        assert waiters.empty_until(1, None) is None
    handle(harness.component, CommandFailed(1, "E1"))
    assert harness.component.counters.failed.counts == {("E1",): 1}
    handle(harness.component, "something else")


def test_every_route_is_declared_once(database: Database) -> None:
    routes = CommandsHarness(database).component.routes()
    paths = [(route.method, route.path) for route in routes]
    assert len(set(paths)) == len(paths)
    for expected in (
        ("GET", "/api/edge/v1/commands/poll"),
        ("POST", "/api/edge/v1/commands/{command_id}/ack"),
        ("POST", "/api/edge/v1/commands/{command_id}/extend"),
        ("POST", "/api/edge/v1/events/safety/batch"),
        ("POST", "/api/edge/v1/telemetry/batch"),
        ("POST", "/api/edge/v1/admin/commands"),
    ):
        assert expected in paths


def test_creation_options_follow_the_component_options() -> None:
    options = commands_options(max_retries=7, retry_backoff_seconds=9, priority_ageing_seconds=0)
    creation = options.for_creation(SecretBox(MasterKey(bytes(32))))
    assert (creation.max_retries, creation.retry_backoff_sec, creation.priority_ageing_seconds) == (7, 9, 0)
    assert creation.rate_rules == options.rates
    assert creation.approval == options.approval


async def test_finish_writes_the_collected_presence_of_collectors(database: Database) -> None:
    harness = CommandsHarness(database)
    collector = harness.add_collector(harness.add_site())
    harness.component.presence.seen[collector.caller.device_id] = 5.0
    await harness.component.finish()
    assert harness.component.presence.seen == {}


def test_component_has_its_background_services(database: Database) -> None:
    names = [service.name for service in CommandsHarness(database).component.services()]
    assert names == ["lease recovery", "audit heads", "rule timer", "collectors' presence", "collectors' budgets"]
