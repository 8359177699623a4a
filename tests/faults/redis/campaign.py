"""Faults of Redis while devices poll: a node with a real Redis in front of its log, faults, and a checker.

Every device must get each of its signals once and in order, or the response that its cursor has expired. The checker
compares the published signals with the responses to the polls.
"""

import asyncio
import json
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from restante.core.errors import RestanteError
from restante.database.database import Database
from restante.delivery.device_presence import DevicePresence
from restante.delivery.log.log import SignalsPublished
from restante.delivery.log.signals import Signal
from restante.delivery.redis.redis_address import parse_redis_url
from restante.identity.master_key import MasterKey
from restante.server.redis_component import RedisComponent
from restante.updates.polling.poll import PollResult, UpdatesPoll
from restante.updates.polling.routes import poll_response
from restante.web.response import ApiResponse
from tests.components import handle
from tests.defaults import append_signals
from tests.services.redis import until
from tests.updates.poll_harness import poll_options

DEVICES = 6
TIMEOUT_SECONDS = 30.0
OPTIONS = poll_options(coalesce_seconds=0.0, rate_per_second=1e6, burst=1_000_000)


@dataclass(slots=True)
class Verdict:
    """The figures of a campaign and the violations."""

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


class RedisNode:
    """The parts of a node that read the log through Redis. Cached knowledge is dropped often, so that polls read."""

    def __init__(self, database: Database, url: str) -> None:
        self.database = database
        self.redis = RedisComponent(parse_redis_url(url), database, MasterKey(bytes(32)))
        self.poll = UpdatesPoll(self.redis.reader, DevicePresence(database), OPTIONS)
        self.redis.invalidate_for(self.poll)
        (service,) = self.redis.services()
        self._task = asyncio.ensure_future(service.run())
        self._loop = asyncio.get_running_loop()
        database.on_commit(self._pass_on)

    async def up(self) -> None:
        await until(lambda: not self.redis.unavailable())

    async def publish(self, device_id: int, number: int) -> None:
        signal = Signal("x", number, {"number": number})
        await self.database.write(append_signals, device_id, [signal])

    async def request(self, device_id: int, cursor: bytes | None) -> ApiResponse:
        result: asyncio.Future[PollResult | RestanteError] = asyncio.get_running_loop().create_future()
        self.poll.start(device_id, cursor, 5, False, result.set_result)
        return poll_response(await asyncio.wait_for(result, TIMEOUT_SECONDS))

    async def end(self) -> None:
        assert self.redis.log is not None
        await self.redis.log.wait_until_idle()
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)

    def _pass_on(self, events: list[object]) -> None:
        self._loop.call_soon_threadsafe(self._handle_commit_events, events)

    def _handle_commit_events(self, events: list[object]) -> None:
        for event in events:
            if isinstance(event, SignalsPublished):
                self.poll.published_here(event)
                handle(self.redis, event)


class RedisCampaign:
    def __init__(self, node: RedisNode, seed: int) -> None:
        self._node = node
        self._random = random.Random(seed)
        self._counts = dict.fromkeys(range(1, DEVICES + 1), 0)
        self._delivered: dict[int, list[int]] = {device_id: [] for device_id in self._counts}
        self._cursors: dict[int, bytes] = {}
        self.verdict = Verdict()

    async def run(self, faults: list[Callable[[], Any]], steps: int = 30) -> Verdict:
        """Publish and poll; cause each fault in turn."""
        for fault in faults:
            await self._run_steps(steps)
            await asyncio.to_thread(fault)
            await self._run_steps(steps)
        await self._catch_up()
        self._check()
        return self.verdict

    async def _run_steps(self, steps: int) -> None:
        for _ in range(steps):
            device_id = self._random.randrange(1, DEVICES + 1)
            if self._random.random() < 0.6:
                self._counts[device_id] += 1
                self.verdict.published += 1
                await self._node.publish(device_id, self._counts[device_id])
            else:
                await self._poll(device_id)

    async def _poll(self, device_id: int) -> bool:
        """Poll once; returns whether it should be repeated."""
        if self._random.random() < 0.3:
            self._node.poll.waiters.forget_all()
        response = await self._node.request(device_id, self._cursors.get(device_id, b"0-0"))
        if response.status == 409:
            self.verdict.expired += 1
            self._delivered[device_id].clear()
            self._cursors.pop(device_id, None)
            return True
        if response.status not in (200, 204):
            self.verdict.wrong.append(f"device {device_id}: status {response.status}")
            return False
        self._cursors[device_id] = next(value for name, value in response.headers if name == b"etag")
        signals = json.loads(response.body)["data"]["signals"] if response.status == 200 else []
        self._delivered[device_id] += [signal["ref"]["number"] for signal in signals]
        self.verdict.delivered += len(signals)
        return bool(signals)

    async def _catch_up(self) -> None:
        for device_id in self._counts:
            while await self._poll(device_id):
                pass

    def _check(self) -> None:
        for device_id, count in self._counts.items():
            if self._delivered[device_id] != list(range(1, count + 1)):
                self.verdict.wrong.append(f"device {device_id}: got {self._delivered[device_id]} of {count}")
        assert self._node.redis.log is not None
        self.verdict.from_redis = self._node.redis.log.counters.hits
