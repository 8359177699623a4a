"""What people and machines do while the demo runs: a few independent loops, each calm enough for two cores.

Refusals of the server (a rate window that is full, a miner that is busy) are part of the story: they go to the log.
"""

import asyncio
import random
from collections.abc import Awaitable, Callable, Coroutine
from pathlib import Path
from typing import Any

from restante_client.errors import RestanteError

from restante.demo import setup
from restante.demo.devices import Fleet
from restante.demo.operators import Operators
from restante.demo.setup import Made
from restante.demo.world import EventClient, World

OPEN_BANKING = "urn:uk:org:openbanking:events:"
EVENT_TYPES = ("resource-update", "consent-authorization-revoked", "account-access-consent-linked-account-update")
KIOSK_ROLLOUT = "Opening hours of December"
READER_ROLLOUT = "Card reader firmware 4.2"
# One shop without power for as long as the demo runs.
DARK_SHOP = "Esbjerg"

Step = Callable[[], Awaitable[None]]


class Story:
    def __init__(self, world: World, operators: Operators, fleet: Fleet, made: Made, folder: Path) -> None:
        self._world = world
        self._operators = operators
        self._fleet = fleet
        self._made = made
        self._shop_outbox = folder / setup.SHOP_OUTBOX
        self._log = folder / "logs" / "story.log"
        self._random = random.Random(world.seed)  # noqa: S311 — what happens next, not a secret
        self._round = 0
        self.reader_rollout = ""

    async def begin(self) -> None:
        """The rollouts: one that succeeds, and one that pauses itself when old card readers report failures."""
        await self._roll_out("kiosk", KIOSK_ROLLOUT, [{"percent": 20}, {"percent": 100}])
        waves = [{"group": "Pilot shops"}, {"percent": 40}, {"percent": 100}]
        self.reader_rollout = await self._roll_out("till", READER_ROLLOUT, waves, with_reader=True)

    async def darken(self) -> None:
        """Switch off one shop, whose devices become late."""
        for running in self._fleet.devices.values():
            if running.device.name.startswith(DARK_SHOP):
                await self._fleet.switch_off(running)

    def loops(self) -> list[Coroutine[Any, Any, None]]:
        """What goes on until the demo ends."""
        steps = (
            (self._publish_event, 3.0, 9.0),
            (self._send_command, 12.0, 30.0),
            (self._send_shop_signal, 5.0, 15.0),
            (self._ask_for_approval, 100.0, 200.0),
            (self._change_config, 60.0, 120.0),
            (self._cut_power, 60.0, 120.0),
            (self._start_rollout, 300.0, 420.0),
        )
        return [self._repeat(*each) for each in steps]

    async def _repeat(self, step: Step, shortest: float, longest: float) -> None:
        while True:
            await asyncio.sleep(self._random.uniform(shortest, longest))
            try:
                await step()
            except RestanteError as error:
                with self._log.open("a", encoding="utf-8") as log:
                    log.write(f"{getattr(step, '__name__', step)}: {error}\n")

    async def _publish_event(self) -> None:
        await self.publish_event(self._random.choice(self._world.clients))

    async def publish_event(self, client: EventClient) -> None:
        kind = OPEN_BANKING + self._random.choice(EVENT_TYPES)
        account = str(self._random.randint(10_000, 99_999))
        await self._operators["bank"].events.publish(
            client_id=client.client_id,
            events={kind: {"subject": _account(account)}},
            sub=f"https://bank.example/accounts/{account}",
        )

    async def _send_command(self) -> None:
        site = self._random.choice(self._world.sites)
        kind, params = self._random.choice(
            (
                ("SET_FAN", {"speed": self._random.choice((60, 70, 80))}),
                ("SET_FREQUENCY", {"frequency": self._random.choice((480, 500, 520))}),
                ("POWER_MODE", {"mode": "NORMAL"}),
                ("HASHING_ENABLE", {"reason": "after maintenance"}),
                ("MINER_RESTART", {"reason": "hash rate below its neighbours"}),
            )
        )
        await self._operators["site"].commands.create(
            site_id=self._made.site_ids[site.name],
            miner_id=self._random.choice(site.miner_ids),
            command_type=kind,
            params=params,
            ttl_sec=900,
        )

    async def _send_shop_signal(self) -> None:
        running = self._random.choice(list(self._fleet.devices.values()))
        ref = {"article": self._random.randint(1000, 9999), "cents": self._random.randint(99, 4999)}
        await asyncio.to_thread(setup.add_shop_signal, self._shop_outbox, running.id, "shop.price", ref)

    async def _ask_for_approval(self) -> None:
        """A further reboot is requested; the approver decides on it a minute later."""
        site = self._random.choice(self._world.sites)
        made: Any = await self._operators["site"].commands.create(
            site_id=self._made.site_ids[site.name],
            miner_id=self._random.choice(site.miner_ids),
            command_type="DEVICE_REBOOT",
            params={"reason": "does not answer to a restart"},
            ttl_sec=3600,
        )
        await asyncio.sleep(60)
        approver = self._operators["approver"].commands
        if self._random.random() < 0.7:
            await approver.approve(made["command_id"])
        else:
            await approver.deny(made["command_id"], reason="wait for the technician")

    async def _change_config(self) -> None:
        running = self._random.choice(list(self._fleet.devices.values()))
        version = f"7.4.{self._random.randint(1, 9)}"
        await self._operators["fleet"].configs.put(
            self._operators.user_ids["fleet"],
            running.id,
            installs=setup.config_of(running.device.kind, version),
            change_note=f"{version} for this one",
        )

    async def _cut_power(self) -> None:
        """Two devices are off for some minutes, longer than they may be silent."""
        off = self._random.sample(
            [each for each in self._fleet.devices.values() if not each.device.name.startswith(DARK_SHOP)], 2
        )
        for running in off:
            await self._fleet.switch_off(running)
        await asyncio.sleep(self._random.uniform(200, 300))
        for running in off:
            self._fleet.switch_on(running)

    async def _start_rollout(self) -> None:
        self._round += 1
        kind = ("gateway", "scale", "kiosk")[self._round % 3]
        await self._roll_out(kind, f"Update {self._round} of the {kind}s", [{"percent": 30}, {"percent": 100}])

    async def _roll_out(self, kind: str, name: str, waves: Any, *, with_reader: bool = False) -> str:
        version = f"7.5.{self._round}"
        made = await self._operators["fleet"].rollouts.create(
            target="devices",
            action="put_config",
            name=name,
            filter={"tag": kind, "status": "active"},
            params={"installs": setup.config_of(kind, version, with_reader=with_reader), "change_note": name},
            waves=waves,
            success_percent=80,
            error_percent=5,
            min_wave_seconds=10,
        )
        return made["rollout_id"]


def _account(number: str) -> dict[str, Any]:
    """An account as the subject of Open Banking's events."""
    resource = "http://openbanking.org.uk/"
    return {
        "subject_type": f"{resource}rid_{resource}rty",
        f"{resource}rid": number,
        f"{resource}rty": "account",
        f"{resource}rlk": [{"version": "v4.0", "link": f"https://bank.example/accounts/{number}"}],
    }
