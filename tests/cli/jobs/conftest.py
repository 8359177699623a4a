"""A server that runs jobs."""

from collections.abc import Iterator

import pytest

from tests.cli.conftest import quiet_server
from tests.server.live_server import LiveServer


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveServer]:
    with quiet_server(tmp_path_factory.mktemp("server"), has_services=True) as server:
        yield server
