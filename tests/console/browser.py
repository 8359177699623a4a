"""Chromium of the system, driven by Playwright, for tests of the console.

Errors that the browser reports (scripts, refused requests, violations of the content security policy) fail the test.
"""

import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, ConsoleMessage, Page, sync_playwright

from restante.web.access import SESSION_COOKIE
from tests.console.console_server import ConsoleServer

TIMEOUT_MS = 60_000
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
    "--disable-quic",
    "--force-color-profile=srgb",
]
# Every rule of WCAG 2.2 at the levels A and AA that axe knows, and its best practices.
AXE_OPTIONS: dict[str, Any] = {
    "runOnly": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"],
    "resultTypes": ["violations"],
}


@contextmanager
def open_browser(folder: Path) -> Iterator[Browser]:
    executable = shutil.which("chromium")
    if executable is None:
        pytest.fail("the tests of the console need the browser: apt-get install chromium", pytrace=False)
    with sync_playwright() as playwright:
        environment: dict[str, str | float | bool] = {"HOME": str(folder), "TMPDIR": str(folder)}
        browser = playwright.chromium.launch(executable_path=executable, args=FLAGS, env=environment)
        try:
            yield browser
        finally:
            browser.close()


OpenAs = Callable[[ConsoleServer, str | None, str], Page]


@contextmanager
def opened_pages(browser: Browser) -> Iterator[OpenAs]:
    """Opens pages of a server at an address, in which a person has signed in; None: nobody."""
    problems: list[str] = []

    def note(message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            problems.append(f"{message.type}: {message.text} at {message.location}")

    with ExitStack() as stack:

        def open_as(server: ConsoleServer, person: str | None, url: str) -> Page:
            context = browser.new_context(base_url=url)
            stack.callback(context.close)
            context.set_default_timeout(TIMEOUT_MS)
            if person is not None:
                context.add_cookies([{"name": SESSION_COOKIE, "value": server.session(person), "url": url}])
            page = context.new_page()
            page.on("console", note)
            page.on("pageerror", lambda error: problems.append(f"exception: {error}"))
            return page

        yield open_as
    assert problems == [], problems


def check_accessibility(page: Page) -> None:
    """Assert that axe finds no violation on the page."""
    results = Axe().run(page, options=AXE_OPTIONS)
    found = [
        f"{each['id']}: {each['help']}: {[node['html'][:200] for node in each['nodes'][:3]]}"
        for each in results.response["violations"]
    ]
    assert found == [], f"{page.url}: {found}"
