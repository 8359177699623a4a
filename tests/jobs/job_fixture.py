"""Jobs on numbers: the rows are the numbers up to a limit, and the action leaves an audit row of each."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from restante.core.errors import Conflict, TooManyRequests
from restante.database.connection import Connection
from restante.database.database import Database
from restante.database.paging import PageRequest
from restante.database.queries import Query
from restante.identity import access_audit, api_keys
from restante.identity.grants import ALL_IDS, AllowedIds, Area, Role
from restante.jobs import jobs
from restante.jobs.actions import (
    Batch,
    BatchResult,
    IdPage,
    ItemResult,
    JobAction,
    JobActions,
    JobCaller,
    JobTarget,
    id_page,
    run_each,
)
from restante.jobs.jobs import JobItemView, JobRequest, JobView
from restante.jobs.runner import JobRunner

COUNT = Query("effects", "SELECT detail FROM access_audit WHERE event = 'number.counted' ORDER BY id")
ITEMS = Query("items", "SELECT COUNT(*) AS items FROM job_items")


class Even(msgspec.Struct, frozen=True):
    even: bool = False


class Counting(msgspec.Struct, frozen=True):
    """Numbers that are refused, that raise an unexpected error after a change, and that a limit stops."""

    refused: list[int] = []
    broken: list[int] = []
    limited: list[int] = []


class Numbers(JobTarget[Even]):
    name = "numbers"
    area = Area.updates
    filter_type = Even

    def __init__(self, highest: int) -> None:
        self.highest = highest

    def check(self, conn: Connection, filters: Even, allowed: AllowedIds) -> None:
        pass

    def scope(self, filters: Even, allowed: AllowedIds) -> AllowedIds:
        return allowed

    def count(self, conn: Connection, filters: Even, allowed: AllowedIds) -> int:
        return len(self.ids_after(conn, filters, allowed, 0, self.highest).ids)

    def sample(self, conn: Connection, filters: Even, allowed: AllowedIds, limit: int) -> list[Any]:
        return self.ids_after(conn, filters, allowed, 0, limit).ids

    def newest_id(self, conn: Connection) -> int:
        return self.highest

    def ids_after(self, conn: Connection, filters: Even, allowed: AllowedIds, after: int, limit: int) -> IdPage:
        step = 2 if filters.even else 1
        first = after + 1 if not filters.even else after + 2 - after % 2
        return id_page(list(range(first, self.highest + 1, step))[:limit], limit)

    def record(self, conn: Connection, actor: str, event: str, detail: dict[str, Any]) -> None:
        access_audit.record_other(conn, actor, event, detail)


class Count(JobAction[Counting]):
    name = "count"
    params_type = Counting

    def __init__(self, target: Numbers, batch_items: int = 10) -> None:
        self.target = target
        self.batch_items = batch_items
        self.approval = False
        self.before_item: Callable[[Connection, int], None] = lambda _conn, _item: None
        self.is_limited = True

    def needs_approval(self, conn: Connection, filters: Even, params: Counting, caller: JobCaller) -> bool:
        return self.approval

    def run(self, conn: Connection, batch: Batch, ids: Sequence[int]) -> BatchResult:
        def count(item: int) -> ItemResult:
            self.before_item(conn, item)
            params: Counting = batch.params
            if item in params.refused:
                raise Conflict(f"{item} is refused")
            if item in params.limited and self.is_limited:
                raise TooManyRequests("too fast", retry_after_seconds=30)
            access_audit.record_other(conn, batch.actor, "number.counted", {"number": item})
            if item in params.broken:
                raise ValueError(f"{item} is broken")
            return ItemResult(item, ref=f"n{item}", result=str(item * item))

        return run_each(ids, count)


class JobFixture:
    def __init__(self, database: Database, highest: int = 25) -> None:
        self.database = database
        self.target = Numbers(highest)
        self.action = Count(self.target)
        self.actions = JobActions([self.action])
        self.key_id, self.key = database.write_now(api_keys.create, "robot", Role.operator)

    def caller(self) -> JobCaller:
        return JobCaller("key:robot", (f"key:{self.key_id}",), ALL_IDS, key_id=self.key_id)

    def create(self, filters: Even | None = None, rate: int | None = None, **params: Any) -> JobView:
        request = JobRequest(
            action=self.action,
            filters=filters or Even(),
            params=Counting(**params),
            caller=self.caller(),
            role=Role.operator,
            rate_per_second=rate,
        )
        total = self.database.read_now(self.target.count, request.filters, ALL_IDS)
        return self.database.write_now(jobs.create, request, total)

    def run(self, runner: JobRunner | None = None) -> None:
        """Run batches until nothing is due."""
        asyncio.run(run_until_idle(runner or JobRunner(self.database, self.actions)))

    def show(self, job_id: str) -> JobView:
        return self.database.read_now(lambda conn: jobs.show(conn, self.actions, jobs.find(conn, job_id)))

    def items(self, job_id: str, state: str | None = None, after: int = 0, limit: int = 500) -> list[JobItemView]:
        page = PageRequest(limit, after)
        return self.database.read_now(
            lambda conn: jobs.items_page(conn, self.actions, jobs.find(conn, job_id), state, page)
        ).items

    def items_left(self) -> int:
        [row] = self.database.read_now(lambda conn: conn.all(ITEMS))
        return int(row["items"])

    def counted(self) -> list[int]:
        """The numbers whose effect was committed, in order."""
        rows = self.database.read_now(lambda conn: conn.all(COUNT))
        return [msgspec.json.decode(row["detail"])["number"] for row in rows]


async def run_until_idle(runner: JobRunner) -> None:
    while await runner.run_once():
        pass
