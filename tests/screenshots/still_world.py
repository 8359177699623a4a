"""The world of the demo at one moment: the same people, shops, sites and clients, moved step by step instead of freely.

Each step is finished before the next one begins, and the clock moves only between steps. So every run makes the same
rows, in the same order, at the same times.
"""

import asyncio
import sqlite3
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager, closing
from dataclasses import dataclass
from datetime import UTC, datetime, tzinfo
from pathlib import Path
from typing import Any

import restante_client.collector.client as collector_client
from restante_client import CollectorClient, CollectorOptions, Command, EventReceiver, ReceiverOptions, Result
from restante_client.agent.collector.simulated import STALLED_FAN_PERCENT, SimulatedMiner

from restante.demo import devices as demo_devices
from restante.demo import programs as start
from restante.demo import setup
from restante.demo.devices import Fleet, RunningDevice, handle
from restante.demo.operators import Operators, plain_http
from restante.demo.processes import Programs
from restante.demo.receivers import WRONG_ISSUER, credentials
from restante.demo.setup import Made
from restante.demo.story import DARK_SHOP, KIOSK_ROLLOUT, READER_ROLLOUT, Story
from restante.demo.world import SimulatedSite, World
from tests.screenshots.still_clock import StillClock, use_seeded_ids

BEGIN_MS = int(datetime(2026, 3, 2, 8, 0, tzinfo=UTC).timestamp()) * 1000
MINUTE_SECONDS = 60
REPORT_SECONDS = 30
STEP_SECONDS = 5
CHART_STEPS = 60
# Longer than a wave must last at least.
CHECK_SECONDS = 20
PASSWORD = "only for pictures"
WAIT_SECONDS = 120.0
SEED = 1
HOT_MINER = 7


@dataclass(slots=True)
class StillWorld:
    url: str
    session: str
    rollout: str
    command: str


class _StillDatetime(datetime):
    @classmethod
    def now(cls, tz: tzinfo | None = None) -> "_StillDatetime":
        return cls.fromtimestamp(time.time(), tz)


class Director:
    def __init__(
        self, clock: StillClock, folder: Path, world: World, operators: Operators, stack: AsyncExitStack
    ) -> None:
        self.clock = clock
        self.folder = folder
        self.world = world
        self.operators = operators
        self.stack = stack
        self.made = Made()
        self.fleet = Fleet(folder / "devices", operators, self._complain, len(world.devices))
        self.shop_outbox = folder / setup.SHOP_OUTBOX
        self.collectors: dict[str, CollectorClient] = {}
        self.miners: dict[int, SimulatedMiner] = {}
        self.receivers: dict[str, EventReceiver] = {}
        stack.push_async_callback(self.fleet.close)

    @staticmethod
    def _complain(text: str) -> None:
        raise AssertionError(text)

    # Time

    async def advance(self, seconds: int) -> None:
        """Move the clock. Sites report and poll at least every half minute, so that no rule finds a miner silent."""
        while seconds > 0:
            step = min(seconds, REPORT_SECONDS) if self.collectors else seconds
            await self._set_clock(step)
            seconds -= step
            for site in self.world.sites if self.collectors else ():
                await self._report(site)
                await self._carry_out(site)

    async def _set_clock(self, seconds: int) -> None:
        """Move the clock, and wait until the server's charts and rollouts have followed."""
        self.clock.now_ms += seconds * 1000
        place = self.clock.now_ms // 1000 // STEP_SECONDS
        await self.until(lambda: _is(self.clock.sampled == place and self.clock.checked_ms == self.clock.now_ms))

    async def until(self, check: Callable[[], Awaitable[Any]]) -> Any:
        """Ask the server again until its background work is done."""
        async with asyncio.timeout(WAIT_SECONDS):
            while not (result := await check()):
                await asyncio.sleep(0.02)
        return result

    async def _is_quiet(self) -> bool:
        """Whether no signal is on its way, also from the shops' outbox, and no job runs."""
        admin = self.operators["admin"]
        if (await admin.outbox.counts(status="PENDING"))["total"]["value"]:
            return False
        with closing(sqlite3.connect(self.shop_outbox)) as shops:
            if shops.execute("SELECT 1 FROM device_update_outbox WHERE status = 'PENDING'").fetchone():
                return False
        return not [job async for job in admin.jobs.list(state="running")] + [
            job async for job in admin.jobs.list(state="queued")
        ]

    async def _are_certificates_ready(self) -> bool:
        """Whether the server has encrypted every certificate for its device, which it does in the background."""
        owner, owner_id = self.operators["fleet"], self.operators.user_ids["fleet"]
        for running in self.fleet.devices.values():
            if running.device.kind == "gateway":
                assigned = owner.certificates.list_of_device(owner_id, running.id)
                if [each async for each in assigned if each["wrap_status"] != "ready"]:
                    return False
        return True

    # Devices

    async def poll_all(self, devices: list[RunningDevice]) -> None:
        """Each device, one after another: poll, do what it says, confirm."""
        for running in devices:
            result = await running.client.poll()
            for signal in result.signals:
                await handle(running, signal)
            await running.client.confirm(result)

    @property
    def lit_devices(self) -> list[RunningDevice]:
        """All that poll: not those of the shop without power, and not the revoked one."""
        return [
            each
            for each in self.fleet.devices.values()
            if not each.device.name.startswith(DARK_SHOP) and each.id != self.made.revoked_device
        ]

    async def settle(self, devices: list[RunningDevice]) -> None:
        """Signals arrive, devices act and confirm."""
        await self.until(self._is_quiet)
        await self.poll_all(devices)
        await self.until(self._is_quiet)
        await self.poll_all(devices)

    # Steps

    async def create(self) -> None:
        await setup.create_people(self.operators, self.world)
        await setup.create_sites(self.operators, self.world, self.made)
        await setup.create_clients(self.operators, self.world, self.made)
        await setup.create_devices(self.operators, self.world, self.fleet)
        await setup.create_certificates(self.operators, self.world, self.fleet)
        await self.until(self._are_certificates_ready)
        await self.settle(list(self.fleet.devices.values()))
        await self.advance(40 * MINUTE_SECONDS)
        await setup.create_history(self.operators, self.world, self.fleet, self.made, self.shop_outbox)
        for number, site in enumerate(self.world.sites):
            self._add_site(site, number)
        for client in self.world.clients:
            options = ReceiverOptions(
                issuer=WRONG_ISSUER if client.behaviour == "errors" else None,
                events_max=1 if client.behaviour == "slow" else 100,
                http=plain_http(),
            )
            key = self.made.client_keys[client.client_id]
            receiver = EventReceiver(
                self.operators.url, credentials(client.client_id, key), self.folder / client.client_id, options
            )
            self.receivers[client.client_id] = receiver
            self.stack.push_async_callback(receiver.close)

    def _add_site(self, site: SimulatedSite, number: int) -> None:
        token, secret = self.made.collectors[site.name]
        options = CollectorOptions(secrets=(secret,), http=plain_http())
        collector = CollectorClient(self.operators.url, token, self.folder / f"site-{number}", options)
        self.collectors[site.name] = collector
        self.stack.push_async_callback(collector.close)
        for miner_id in site.miner_ids:
            self.miners[miner_id] = SimulatedMiner(miner_id, clock=lambda: self.clock.now_ms / 1000)
            self.miners[miner_id].ambient = 14.0 + miner_id * 7 % 10

    async def roll_out(self, story: Story) -> str:
        """One rollout that ends, and one that pauses itself because of exactly as many failures as that needs."""
        await story.begin()
        rollouts = self.operators["fleet"].rollouts
        found = {each["name"]: each["rollout_id"] async for each in rollouts.list()}
        old = [each for each in self.lit_devices if each.device.has_old_reader]
        others = [each for each in self.lit_devices if not each.device.has_old_reader]
        # The first check begins the first waves, the second one the second waves, the third one ends the first rollout.
        await self.advance(CHECK_SECONDS)
        for _ in range(2):
            await self.settle(others)
            await self.advance(CHECK_SECONDS)
        # Two failures of 28 are more than five percent. Others report after the pause.
        await self.poll_all(old[:2])
        await self.advance(CHECK_SECONDS)
        states = [(await rollouts.get(found[name]))["state"] for name in (KIOSK_ROLLOUT, READER_ROLLOUT)]
        if states != ["done", "paused"]:
            raise AssertionError(f"the rollouts are {states}")
        await self.settle(others[: len(others) // 2])
        await self.poll_all(old)
        return found[READER_ROLLOUT]

    async def heat_up(self) -> None:
        """The fans of one miner stall: it heats up, and a rule sends it a command."""
        hot = self.miners[self.world.sites[0].miner_ids[HOT_MINER]]
        hot.advance()
        hot.fan_percent = STALLED_FAN_PERCENT
        await self.advance(10 * MINUTE_SECONDS)

    async def _report(self, site: SimulatedSite) -> None:
        collector = self.collectors[site.name]
        at = datetime.fromtimestamp(time.time(), UTC).isoformat()
        records = []
        for miner_id in site.miner_ids:
            miner = self.miners[miner_id]
            summary, stats = miner.answer("summary", "")["SUMMARY"][0], miner.answer("stats", "")["STATS"][1]
            records.append(
                {
                    "miner_id": miner_id,
                    "ts": at,
                    "hashrate": summary["GHS 5s"] / 1000,
                    "temp_max": stats["temp1"],
                    "power": summary["Power"],
                    "fan_rpm_max": stats["fan1"],
                }
            )
        await collector.add_telemetry(records)
        await collector.flush()

    async def _carry_out(self, site: SimulatedSite) -> None:
        collector = self.collectors[site.name]
        while commands := await collector.poll():
            for command in commands:
                await collector.carry_out(command, self._execute)
            await collector.flush()

    def _execute(self, command: Command) -> Result:
        if command.command_type == "MINER_RESTART":
            return Result("failed", "MINER_UNREACHABLE", "no connection to the miner")
        if command.command_type == "SET_FAN":
            for miner_id in command.target_ids:
                self.miners[miner_id].answer("ascset", f"0,fan,{command.params['speed']}")
        return Result("succeeded", 0, f"{command.command_type.lower()} done")

    async def send_command(self, offset: int, kind: str, params: dict[str, Any]) -> str:
        site = self.world.sites[0]
        made: Any = await self.operators["site"].commands.create(
            site_id=self.made.site_ids[site.name],
            miner_id=site.miner_ids[offset],
            command_type=kind,
            params=params,
            ttl_sec=3600,
        )
        await self._carry_out(site)
        return str(made["command_id"])

    async def exchange_events(self, story: Story) -> None:
        for number in range(24):
            await story.publish_event(self.world.clients[number % len(self.world.clients)])
            await self.advance(7)
        events = self.operators["bank"].events

        async def all_signed() -> bool:
            statuses = [each async for each in events.statuses()]
            return sum(each["waiting"] for each in statuses) == 24

        await self.until(all_signed)
        for receiver in self.receivers.values():
            for _ in range(2):
                await receiver.poll(is_immediate=True)
            await receiver.acknowledge()

    async def five_minutes(self) -> str:
        """What the charts draw: polls, signals, commands. The last command fails, and waits for its next attempt."""
        devices = self.lit_devices
        owner, owner_id = self.operators["fleet"], self.operators.user_ids["fleet"]
        for step in range(CHART_STEPS):
            await self.advance(STEP_SECONDS)
            more = 11 + step % 7
            called = [
                each for index, each in enumerate(devices) if (index + step) % 8 == 0 or (index + step) % more == 0
            ]
            if step % 4 == 0:
                for each in called[: 2 + step % 5]:
                    await owner.signals.send(owner_id, each.id, type="shop.opens", ref={"at": "09:30"})
                await self.until(self._is_quiet)
            if step % 9 == 3:
                await self.send_command(step // 9, "SET_FREQUENCY", {"frequency": 480 + step})
            await self.poll_all(called)
        command = await self.send_command(12, "MINER_RESTART", {"reason": "hash rate below its neighbours"})
        await self.advance(STEP_SECONDS)
        return command


async def _is(value: bool) -> bool:
    return value


@asynccontextmanager
async def still_world(folder: Path) -> AsyncIterator[StillWorld]:
    """A server with the world, at a moment that is the same in every run."""
    clock = StillClock(folder / "clock")
    clock.now_ms = BEGIN_MS
    clock.use()
    use_seeded_ids()
    collector_client.datetime = _StillDatetime  # type: ignore[attr-defined]
    demo_devices.APPLY_SECONDS = (0.0, 0.0)
    program = ("-m", "tests.screenshots.still_clock", str(folder / "clock"))
    logs = folder / "logs"
    logs.mkdir()
    async with AsyncExitStack() as stack:
        programs = Programs(logs, Director._complain)
        stack.push_async_callback(programs.stop)
        world = World.make(SEED, 199, 60)
        setup.create_shop_outbox(folder / setup.SHOP_OUTBOX)
        data = folder / "server"
        await start.create_data_folder(programs, data, world.people[0].email, PASSWORD, program)
        url = await start.start_server(programs, data, "127.0.0.1:0", folder / setup.SHOP_OUTBOX, program)
        operators = Operators(url, PASSWORD)
        stack.push_async_callback(operators.close)
        director = Director(clock, folder, world, operators, stack)
        await director.create()
        story = Story(world, operators, director.fleet, director.made, folder)
        rollout = await director.roll_out(story)
        await director.heat_up()
        await director.exchange_events(story)
        command = await director.five_minutes()
        yield StillWorld(url, operators.cookies["admin"], rollout, command)
