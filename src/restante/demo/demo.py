"""Runs a demo from its start to its end. It leaves nothing behind; if it is killed, the next demo cleans up."""

import asyncio
import os
import secrets
import signal
import webbrowser
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from restante.demo import programs as start
from restante.demo import receivers, setup, tasks
from restante.demo.devices import Fleet
from restante.demo.operators import Operators, sign_in
from restante.demo.processes import Programs
from restante.demo.screen import screen
from restante.demo.session_link import SessionLink
from restante.demo.setup import Made
from restante.demo.story import Story
from restante.demo.temporary_folder import remove_leftovers, temporary_folder
from restante.demo.world import World

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
# Where a browser with a window can be opened.
DISPLAYS = ("DISPLAY", "WAYLAND_DISPLAY")
AGENT_DEVICE = "Head office gateway"

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class DemoOptions:
    """`data`: an empty folder that is kept; without it a temporary one that is removed."""

    listen: str
    seed: int
    devices: int
    miners: int
    data: Path | None
    has_browser: bool


async def run(options: DemoOptions, say: Say, complain: Say) -> int:
    """Run until a signal comes or the server ends; returns the exit code."""
    stopped = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in SIGNALS:
        loop.add_signal_handler(number, stopped.set)
    remove_leftovers(say)
    async with _folder(options.data) as folder, AsyncExitStack() as stack:
        logs = folder / "logs"
        logs.mkdir()
        programs = Programs(logs, complain)
        stack.push_async_callback(programs.stop)
        work = asyncio.create_task(_work(options, folder, programs, stack, say, complain))
        waits = [work, asyncio.create_task(stopped.wait()), asyncio.create_task(programs.essential_ended.wait())]
        await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        if work.done():
            work.result()
        await tasks.end(waits)
        return 0 if stopped.is_set() else 1


@asynccontextmanager
async def _folder(data: Path | None) -> AsyncIterator[Path]:
    if data is not None:
        data.mkdir(parents=True, exist_ok=True)
        if any(data.iterdir()):
            raise FileExistsError(f"the folder {data} is not empty: a demo begins with an empty one")
        yield data.absolute()
        return
    with temporary_folder() as folder:
        yield folder


async def _work(
    options: DemoOptions, folder: Path, programs: Programs, stack: AsyncExitStack, say: Say, complain: Say
) -> None:
    """Make the fleet, print what there is to see, and let the story go on until this task is cancelled.

    What must be closed goes to the stack, which the caller unwinds when this task has ended.
    """
    world = World.make(options.seed, options.devices, options.miners)
    made = Made()
    password = secrets.token_urlsafe(9)
    shop_outbox = folder / setup.SHOP_OUTBOX
    setup.create_shop_outbox(shop_outbox)
    await start.create_data_folder(programs, folder / "server", world.people[0].email, password)
    url = await start.start_server(programs, folder / "server", options.listen, shop_outbox)
    operators = Operators(url, password)
    stack.push_async_callback(operators.close)
    await setup.create_people(operators, world)
    fleet = Fleet(folder / "devices", operators, complain, options.devices)
    stack.push_async_callback(fleet.close)
    await _create(folder, programs, world, operators, fleet, made, shop_outbox)
    story = Story(world, operators, fleet, made, folder)
    fleet.start()
    await story.begin()
    await story.darken()
    going_on = [asyncio.create_task(each) for each in (*story.loops(), *_odd_receivers(folder, world, operators, made))]
    stack.push_async_callback(tasks.end, going_on)
    link = await _open_link(stack, operators, world)
    say(screen(url, link, operators, world, made, story.reader_rollout, folder))
    if options.has_browser and any(name in os.environ for name in DISPLAYS):
        await asyncio.to_thread(webbrowser.open, link)
    await tasks.first_error(going_on)


async def _create(
    folder: Path, programs: Programs, world: World, operators: Operators, fleet: Fleet, made: Made, shop_outbox: Path
) -> None:
    await setup.create_sites(operators, world, made)
    for site in world.sites:
        site_folder = folder / "sites" / site.name.replace(" ", "-")
        site_folder.mkdir(parents=True)
        await start.start_site(programs, site_folder, site, world.seed)
        token, secret = made.collectors[site.name]
        await start.start_collector(programs, operators.url, site_folder, site, token, secret)
    await setup.create_clients(operators, world, made)
    for client in world.clients:
        if client.behaviour == "agent":
            key = made.client_keys[client.client_id]
            await start.start_receiver(
                programs, operators.url, folder / "clients" / client.client_id, client.client_id, key
            )
    await setup.create_devices(operators, world, fleet)
    # The agent waits some seconds for its approval.
    agent = asyncio.create_task(
        start.start_device_agent(programs, operators.url, folder / "agent", AGENT_DEVICE, operators["fleet"])
    )
    await setup.create_certificates(operators, world, fleet)
    await setup.create_history(operators, world, fleet, made, shop_outbox)
    await setup.configure_agent(operators, await agent, folder / "agent" / "installed")


async def _open_link(stack: AsyncExitStack, operators: Operators, world: World) -> str:
    admin = world.people[0]

    async def new_cookie() -> str:
        answer = await sign_in(operators.url, admin.email, operators.password, operators.http)
        return answer.headers["set-cookie"]

    link = SessionLink(f"{operators.url}/console", new_cookie)
    stack.push_async_callback(link.close)
    return await link.open(urlsplit(operators.url).hostname or "127.0.0.1")


def _odd_receivers(folder: Path, world: World, operators: Operators, made: Made) -> list[Coroutine[Any, Any, None]]:
    works = {"slow": receivers.run_slow, "errors": receivers.run_misconfigured}
    return [
        works[client.behaviour](
            operators.url, client.client_id, made.client_keys[client.client_id], folder / "clients" / client.client_id
        )
        for client in world.clients
        if client.behaviour in works
    ]
