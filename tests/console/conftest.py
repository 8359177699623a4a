"""One server and one browser for the tests of a module."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page

from tests.console.browser import open_browser, opened_page
from tests.console.console_server import ConsoleServer


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ConsoleServer]:
    server = ConsoleServer(tmp_path_factory.mktemp("console"))
    yield server
    server.close()


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with open_browser(Path(tmp_path_factory.mktemp("browser"))) as browser:
        yield browser


@pytest.fixture
def page_as(server: ConsoleServer, browser: Browser) -> Iterator[Callable[[str], Page]]:
    """Opens a page of the browser in which this person has signed in. Errors in the browser's console fail the test."""
    with opened_page(server, browser) as open_as:
        yield open_as
