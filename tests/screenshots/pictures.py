"""Pictures of the console's pages, taken with the system's Chromium, without scripts: nothing on them moves."""

import shutil
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from playwright.async_api import async_playwright

from tests.console.browser import FLAGS
from tests.screenshots.still_world import StillWorld

WIDTH = 1440


@dataclass(frozen=True, slots=True)
class Picture:
    """`path` may name what the world knows: `{rollout}`, `{command}`. `height`: what is below it is left out."""

    name: str
    path: str
    height: int
    has_dark: bool = False


PICTURES = (
    # Below the charts is the table of nodes: the process, its address and its connections differ from run to run.
    Picture("overview", "", 770, has_dark=True),
    Picture("devices", "/devices", 900),
    Picture("device", "/devices/7", 1000, has_dark=True),
    Picture("rollout", "/rollouts/{rollout}", 900),
    Picture("site", "/sites/1", 900),
    Picture("command", "/commands/{command}", 820, has_dark=True),
    Picture("approvals", "/approvals", 500),
    Picture("clients", "/clients", 500),
)


async def take(world: StillWorld, folder: Path, names: Iterable[str] = ()) -> list[Path]:
    """Take all pictures, or those with these names; returns their files."""
    executable = shutil.which("chromium")
    if executable is None:
        raise FileNotFoundError("chromium is not installed: scripts/install-services installs it")
    wanted = set(names) or {picture.name for picture in PICTURES}
    made = []
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=executable, args=FLAGS)
        for scheme in ("light", "dark"):
            context = await browser.new_context(
                base_url=world.url,
                color_scheme="dark" if scheme == "dark" else "light",
                java_script_enabled=False,
                extra_http_headers={"Cookie": world.session},
            )
            page = await context.new_page()
            for picture in PICTURES:
                if picture.name not in wanted or (scheme == "dark" and not picture.has_dark):
                    continue
                path = "/console" + picture.path.format(rollout=world.rollout, command=world.command)
                await page.set_viewport_size({"width": WIDTH, "height": picture.height})
                answer = await page.goto(path)
                if answer is None or answer.status != 200:
                    raise AssertionError(f"{path}: {answer and answer.status}")
                file = folder / f"{picture.name}{'-dark' if scheme == 'dark' else ''}.png"
                await page.screenshot(path=str(file))
                made.append(file)
            await context.close()
        await browser.close()
    return made
