from restante.commands.leases import CommandFailed
from restante.commands.parts import CommandsOptions
from restante.commands.queue import CommandsChanged
from restante.commands.site_bell import Quiet
from restante.database.database import Database
from restante.database.writer import ForeignCommit
from restante.identity.callers import CollectorRevoked
from tests.commands.field import Field


async def test_passes_on_what_commits_announce(database: Database) -> None:
    field = Field(database)
    bell = field.parts.poll.bell
    hired = field.hire(field.add_site())
    for event in (CommandsChanged(1), ForeignCommit()):
        bell.learn(1, None, Quiet(float("inf"), 0), bell.last_ring(1))
        assert bell.quiet(1, None)
        field.parts.hear(event)
        assert bell.quiet(1, None) is None
    await field.tokens.verify(hired.token)
    field.parts.hear(CollectorRevoked(hired.caller.device_id))
    assert field.tokens.cached_count == 0
    field.parts.hear(CommandFailed(1, "E1"))
    assert field.parts.totals.failed.counts == {("E1",): 1}
    field.parts.hear("something else")


def test_every_route_is_there_once(database: Database) -> None:
    routes = Field(database).parts.routes()
    paths = [(route.method, route.path) for route in routes]
    assert len(set(paths)) == len(paths)
    for wanted in (
        ("GET", "/api/edge/v1/commands/poll"),
        ("POST", "/api/edge/v1/commands/{command_id}/ack"),
        ("POST", "/api/edge/v1/commands/{command_id}/extend"),
        ("POST", "/api/edge/v1/events/safety/batch"),
        ("POST", "/api/edge/v1/telemetry/batch"),
        ("POST", "/api/edge/v1/admin/commands"),
    ):
        assert wanted in paths


def test_the_options_reach_the_makers_of_commands() -> None:
    options = CommandsOptions(max_retries=7, retry_backoff_seconds=9, priority_ageing_seconds=0)
    made = options.for_creation()
    assert (made.max_retries, made.retry_backoff_sec, made.priority_ageing_seconds) == (7, 9, 0)
    assert made.rate_rules == options.rates
    assert made.approval == options.approval


async def test_finishing_writes_who_was_seen(database: Database) -> None:
    field = Field(database)
    hired = field.hire(field.add_site())
    field.parts.presence.seen[hired.caller.device_id] = 5.0
    await field.parts.finish()
    assert field.parts.presence.seen == {}


def test_names_what_runs_beside(database: Database) -> None:
    names = [name for name, _run in Field(database).parts.services()]
    assert names == ["lease recovery", "rule timer", "collectors' presence"]
