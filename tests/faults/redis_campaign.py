"""Faults of Redis while devices poll: a node with real Redis in front of its log, a fault, and a checker.

Every device must be given each of its signals once and in order, or be told that its cursor has expired. The checker
knows what was published from the record alone; devices know only what they are answered.
"""

import asyncio
import json
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from restante.database.database import Database
from restante.delivery import log
from restante.delivery.log import Published
from restante.delivery.presence import Presence
from restante.delivery.redis_address import parse_redis_url
from restante.delivery.signals import Signal
from restante.server.redis_parts import RedisParts
from restante.updates.poll import Poll, PollOptions
from restante.web.answer import Answer
from tests.services.redis import until

DEVICES = 6
SOON = 30.0
OPTIONS = PollOptions(coalesce_seconds=0.0, rate_per_second=1e6, burst=1_000_000)


@dataclass(slots=True)
class Verdict:
    """What the checker found."""

    published: int = 0
    delivered: int = 0
    expired: int = 0
    from_redis: int = 0
    wrong: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        return (
            f"published {self.published}, delivered {self.delivered}, cursors expired {self.expired}, "
            f"reads from redis {self.from_redis}, wrong {len(self.wrong)}"
        )


class FaultyNode:
    """A server's parts that matter here. What is remembered is dropped again and again: reads are what is tested."""

    def __init__(self, database: Database, url: str) -> None:
        self.database = database
        self.redis = RedisParts(parse_redis_url(url), database)
        self.poll = Poll(self.redis.reader, Presence(database), OPTIONS)
        self.redis.ring_for(self.poll)
        (service,) = self.redis.services()
        self._task = asyncio.ensure_future(service.run())
        self._loop = asyncio.get_running_loop()
        database.on_commit(self._pass_on)

    async def up(self) -> None:
        await until(lambda: not self.redis.away())

    async def publish(self, device_id: int, number: int) -> None:
        signal = Signal("x", number, {"number": number})
        await self.database.write(log.append, device_id, [signal])

    async def ask(self, device_id: int, cursor: bytes | None) -> Answer:
        answered: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self.poll.start(device_id, cursor, 5, False, answered.set_result)
        return await asyncio.wait_for(answered, SOON)

    async def end(self) -> None:
        assert self.redis.log is not None
        await self.redis.log.settled()
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)

    def _pass_on(self, announced: list[object]) -> None:
        self._loop.call_soon_threadsafe(self._hear, announced)

    def _hear(self, announced: list[object]) -> None:
        for event in announced:
            if isinstance(event, Published):
                self.poll.hear(event)
                self.redis.copy(event)


class Campaign:
    def __init__(self, node: FaultyNode, seed: int) -> None:
        self._node = node
        self._chance = random.Random(seed)
        self._counts = dict.fromkeys(range(1, DEVICES + 1), 0)
        self._given: dict[int, list[int]] = {device_id: [] for device_id in self._counts}
        self._cursors: dict[int, bytes] = {}
        self.verdict = Verdict()

    async def run(self, faults: list[Callable[[], Any]], steps: int = 30) -> Verdict:
        """Publish and poll; in between, each fault in its turn."""
        for fault in faults:
            await self._some_steps(steps)
            await asyncio.to_thread(fault)
            await self._some_steps(steps)
        await self._catch_up()
        self._check()
        return self.verdict

    async def _some_steps(self, steps: int) -> None:
        for _ in range(steps):
            device_id = self._chance.randrange(1, DEVICES + 1)
            if self._chance.random() < 0.6:
                self._counts[device_id] += 1
                self.verdict.published += 1
                await self._node.publish(device_id, self._counts[device_id])
            else:
                await self._poll(device_id)

    async def _poll(self, device_id: int) -> bool:
        """One poll; whether there was anything."""
        if self._chance.random() < 0.3:
            self._node.poll.bell.forget_all()
        answer = await self._node.ask(device_id, self._cursors.get(device_id, b"0-0"))
        if answer.status == 409:
            self.verdict.expired += 1
            self._given[device_id].clear()
            self._cursors.pop(device_id, None)
            return True
        if answer.status not in (200, 204):
            self.verdict.wrong.append(f"device {device_id}: answered {answer.status}")
            return False
        self._cursors[device_id] = next(value for name, value in answer.headers if name == b"etag")
        signals = json.loads(answer.body)["data"]["signals"] if answer.status == 200 else []
        self._given[device_id] += [signal["ref"]["number"] for signal in signals]
        self.verdict.delivered += len(signals)
        return bool(signals)

    async def _catch_up(self) -> None:
        for device_id in self._counts:
            while await self._poll(device_id):
                pass

    def _check(self) -> None:
        for device_id, count in self._counts.items():
            if self._given[device_id] != list(range(1, count + 1)):
                self.verdict.wrong.append(f"device {device_id}: given {self._given[device_id]} of {count}")
        assert self._node.redis.log is not None
        self.verdict.from_redis = self._node.redis.log.totals.hits
