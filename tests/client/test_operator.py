"""The operator client against a real server, over TCP and the Unix socket; and that it has a method for every route."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from restante_client import BlockingOperatorClient, OperatorClient
from restante_client.errors import Forbidden, NotFound, Unauthorized
from restante_client.testing import LocalServer

pytestmark = pytest.mark.slow

REPOSITORY = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def server() -> Iterator[LocalServer]:
    with LocalServer() as server:
        yield server


@pytest.fixture
def operator(server: LocalServer) -> Iterator[BlockingOperatorClient]:
    with BlockingOperatorClient(server.url, server.admin_key) as client:
        yield client


def test_resources_are_made_listed_and_exported(operator: BlockingOperatorClient) -> None:
    site = operator.sites.create(name="client")["id"]
    for number in range(3):
        operator.miners.create(site_id=site, name=f"m{number}")
    assert [miner["name"] for miner in operator.miners.list(site_id=site)] == ["m0", "m1", "m2"]
    page = operator.miners.list_page(site_id=site, limit=2)
    assert operator.miners.list_page(site_id=site, after=page["next"])["next"] is None
    sent = operator.commands.create(site_id=site, all_miners=True, command_type="MINER_RESTART", idempotency_key="k")
    again = operator.commands.create(site_id=site, all_miners=True, command_type="MINER_RESTART", idempotency_key="k")
    assert sent == again
    assert b"".join(operator.audit.export(site_id=site)).count(b"\n") > 3
    with pytest.raises(NotFound):
        operator.commands.get("cmd_absent")
    with pytest.raises(Forbidden):
        operator.people.create(
            email="x@example.com", password="correct horse", grants=[{"role": "viewer", "scope": "all"}]
        )


async def test_local_client_needs_no_credential(server: LocalServer) -> None:
    async with OperatorClient.local(server.data / "restante.sock") as client:
        person = await client.people.create(
            email="made@example.com", password="correct horse", grants=[{"role": "viewer", "scope": "all"}]
        )
        assert [each["id"] async for each in client.people.list()][-1] == person["id"]
    async with OperatorClient(server.url) as stranger:
        with pytest.raises(Unauthorized):
            await stranger.people.get(1)


def test_example_prints_what_waits(server: LocalServer, operator: BlockingOperatorClient) -> None:
    site = operator.sites.create(name="example")["id"]
    miner = operator.miners.create(site_id=site, name="m")["id"]
    command = operator.commands.create(site_id=site, miner_id=miner, command_type="MINER_RESTART")["command_id"]
    printed = subprocess.run(
        [sys.executable, str(REPOSITORY / "client" / "examples" / "operate.py"), server.url],
        env={**os.environ, "RESTANTE_API_KEY": server.admin_key},
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    ).stdout
    assert f"site {site}: example\n  MINER_RESTART {command}: Site {site} has no collector" in printed


@pytest.mark.parametrize("script", ["generate-operator-client", "generate-command-reference"])
def test_generated_files_are_up_to_date(script: str) -> None:
    checked = subprocess.run(
        [sys.executable, str(REPOSITORY / "scripts" / script), "--check"], capture_output=True, text=True, timeout=120
    )
    assert checked.returncode == 0, checked.stdout + checked.stderr
