import asyncio

import pytest

from restante.database.commit_events import ForeignCommit
from restante.database.errors import DatabaseUnavailable
from restante.server.component_list import ComponentList
from restante.web.component import Component


class CatchingUp(Component):
    """Fails the first so many calls of `catch_up`."""

    def __init__(self, failures: int = 0, error: type[Exception] = RuntimeError) -> None:
        self.failures = failures
        self.error = error
        self.is_caught_up = asyncio.Event()

    async def catch_up(self) -> None:
        if self.failures:
            self.failures -= 1
            raise self.error("not now")
        self.is_caught_up.set()


async def test_catch_up_waits_for_a_database_that_does_not_answer() -> None:
    failing, behind = CatchingUp(1, DatabaseUnavailable), CatchingUp()
    components = ComponentList([failing, behind])
    components.handle_commit_events([ForeignCommit()])
    running = asyncio.create_task(components.catch_up())
    await asyncio.wait_for(behind.is_caught_up.wait(), 30)
    assert failing.is_caught_up.is_set()
    running.cancel()


async def test_catch_up_that_failed_is_repeated_without_another_change() -> None:
    failing, behind = CatchingUp(failures=1), CatchingUp()
    components = ComponentList([failing, behind])
    components.handle_commit_events([ForeignCommit()])
    with pytest.raises(RuntimeError):
        await components.catch_up()
    assert not behind.is_caught_up.is_set()
    # The service is restarted.
    restarted = asyncio.create_task(components.catch_up())
    await asyncio.wait_for(behind.is_caught_up.wait(), 30)
    assert failing.is_caught_up.is_set()
    restarted.cancel()
