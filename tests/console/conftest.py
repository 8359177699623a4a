"""One server, one installation on each engine, and one browser for the tests of a module."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page

from tests.console.browser import open_browser, opened_pages
from tests.console.console_server import ConsoleServer
from tests.console.installation import ENGINES, Installation, PageOn, running_on_files, running_on_postgres
from tests.services.postgres import PostgresServer


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ConsoleServer]:
    server = ConsoleServer(tmp_path_factory.mktemp("console"))
    yield server
    server.close()


@pytest.fixture(scope="module", params=ENGINES)
def installation(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installation]:
    folder = tmp_path_factory.mktemp("installation")
    if request.param == "sqlite":
        with running_on_files(folder) as installation:
            yield installation
        return
    postgres: PostgresServer = request.getfixturevalue("postgres")
    url = postgres.migrated()
    with running_on_postgres(folder, url) as installation:
        yield installation


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with open_browser(Path(tmp_path_factory.mktemp("browser"))) as browser:
        yield browser


@pytest.fixture
def page_as(server: ConsoleServer, browser: Browser) -> Iterator[Callable[[str], Page]]:
    """Opens a page of the browser in which this person has signed in. Errors in the browser's console fail the test."""
    with opened_pages(browser) as open_as:
        yield lambda person: open_as(server, person, server.base_url)


@pytest.fixture
def page_on(installation: Installation, browser: Browser) -> Iterator[PageOn]:
    with opened_pages(browser) as open_as:
        yield lambda person, node: open_as(installation.server, person, installation.urls[node])
