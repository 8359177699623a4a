"""Several nodes share the budgets of a collector; a collector that uses little causes no write."""

import pytest

from restante.commands import budget_sharing
from restante.commands.budget_sharing import BudgetSharing
from restante.commands.collector_budgets import BudgetOptions, CollectorBudgets
from restante.commands.counters import CommandCounters
from restante.core.errors import TooManyRequests
from restante.database.database import Database
from restante.database.errors import DatabaseUnavailable
from restante.database.queries import Query
from tests.commands.edge_fixture import CommandsHarness
from tests.conftest import ManualClock

_ROWS = Query("rows", "SELECT device_id, budget, full_at FROM collector_budgets")


class Node:
    def __init__(self, database: Database, clock: ManualClock, **options: int) -> None:
        self.budgets = CollectorBudgets(
            BudgetOptions(**options), CommandCounters(), monotonic=lambda: clock.now_ms / 1000
        )
        self.sharing = BudgetSharing(database, self.budgets)

    def is_refused(self, device_id: int, size: int) -> bool:
        try:
            self.budgets.admit_telemetry(device_id, size)
        except TooManyRequests:
            return True
        return False


@pytest.fixture
def device_id(harness: CommandsHarness, site: int) -> int:
    return harness.add_collector(site).caller.device_id


def nodes(database: Database, clock: ManualClock, count: int = 2) -> list[Node]:
    return [Node(database, clock, telemetry_bytes_per_minute=6000) for _ in range(count)]


def rows(database: Database) -> list[dict[str, object]]:
    return database.read_now(lambda conn: [dict(row) for row in conn.all(_ROWS)])


async def test_budget_used_up_at_one_node_is_used_up_at_the_others(
    database: Database, clock: ManualClock, device_id: int
) -> None:
    first, second, third = nodes(database, clock, 3)
    assert not first.is_refused(device_id, 6000)
    await first.sharing.try_once()
    # The second node does not have the spending yet. It reads it when the collector has used an eighth there.
    assert not second.is_refused(device_id, 750)
    await second.sharing.try_once()
    assert second.is_refused(device_id, 1)
    assert not third.is_refused(device_id, 750)
    await third.sharing.try_once()
    assert third.is_refused(device_id, 1)
    # What was spent everywhere is paid back: 7,500 bytes at 100 a second, less the 6,000 that may be missing.
    clock.advance(16)
    assert not third.is_refused(device_id, 1)


async def test_spending_at_two_nodes_adds_up_to_one_budget(
    database: Database, clock: ManualClock, device_id: int
) -> None:
    """A collector that sends as much as it may to both nodes gets one budget in the long run, not two."""
    both = nodes(database, clock)
    sent = 0
    for _ in range(300):
        for node in both:
            sent += 0 if node.is_refused(device_id, 1000) else 1000
            await node.sharing.try_once()
        clock.advance(2)
    # 600 seconds at 100 bytes, a full bucket at the start, and what the second node admits before it knows.
    assert 60_000 <= sent <= 60_000 + 6000 + 2 * 1000


async def test_collector_that_uses_little_causes_no_write(
    database: Database, clock: ManualClock, device_id: int
) -> None:
    (node,) = nodes(database, clock, 1)
    for _ in range(100):
        assert not node.is_refused(device_id, 700)
        await node.sharing.try_once()
        assert rows(database) == []
        clock.advance(8)


async def test_full_budgets_are_deleted(database: Database, clock: ManualClock, device_id: int) -> None:
    (node,) = nodes(database, clock, 1)
    assert not node.is_refused(device_id, 6000)
    await node.sharing.try_once()
    assert rows(database) == [{"device_id": device_id, "budget": "telemetry", "full_at": clock.now_ms + 60_000}]
    assert database.write_now(budget_sharing.delete_full) == 0
    clock.advance(60)
    assert database.write_now(budget_sharing.delete_full) == 1


async def test_what_could_not_be_shared_is_shared_later(
    database: Database, clock: ManualClock, device_id: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail(*_arguments: object) -> None:
        raise DatabaseUnavailable("gone")

    first, second = nodes(database, clock)
    assert not first.is_refused(device_id, 6000)
    with monkeypatch.context() as patch:
        patch.setattr(database, "write", fail)
        await first.sharing.try_once()
    await first.sharing.try_once()
    assert not second.is_refused(device_id, 750)
    await second.sharing.try_once()
    assert second.is_refused(device_id, 1)


async def test_collector_that_is_gone_is_not_shared(database: Database, clock: ManualClock) -> None:
    (node,) = nodes(database, clock, 1)
    assert not node.is_refused(999, 6000)
    await node.sharing.try_once()
    assert rows(database) == []
