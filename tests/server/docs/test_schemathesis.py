"""Requests that schemathesis generates from the OpenAPI document, sent to a real server by every kind of caller.

All its checks must hold: no server error, only documented statuses, headers and bodies, valid requests accepted,
invalid ones refused. See `schemathesis_config` for the operations whose rules a schema cannot express.
"""

import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest

from restante.server.docs.openapi import TAGS
from tests.faults.client import Client, register
from tests.faults.server_process import NO_RATE_LIMIT, environment, prepare_data, running_server
from tests.server.docs.schemathesis_config import (
    BATCHES,
    LOCKS_OUT,
    LONG_POLLS,
    RULES_BEYOND_SCHEMA,
    UNPROCESSABLE,
    config_toml,
)
from tests.server.route_table import every_route, route_name

pytestmark = pytest.mark.slow

PROGRAM = str(Path(sys.executable).with_name("schemathesis"))
# Only against a hang: on a slow machine the longest run takes minutes.
TIMEOUT_SECONDS = 900
OPEN = ("authentication", "event access", "pages", "server")
TAGS_OF = {
    "device": ("device",),
    "collector": ("collector", "older collectors"),
    "client": ("event polling", "event subscriptions", "shared signals"),
    "nobody": OPEN,
}
TAGS_OF["admin"] = tuple(TAGS.keys() - {tag for tags in TAGS_OF.values() for tag in tags})


@dataclass(frozen=True, slots=True)
class Target:
    """A running server, and the credentials of each kind of caller."""

    url: str
    tokens: dict[str, str]
    folder: Path


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Target]:
    folder = tmp_path_factory.mktemp("schemathesis")
    prepared = prepare_data(folder / "data")
    with running_server(prepared.data, *NO_RATE_LIMIT, "--events-wait-seconds", "0") as server:
        url = f"http://127.0.0.1:{server.port}"
        operator = Client(server.port, prepared.key)
        device = register(operator, prepared)
        operator.close()
        with httpx.Client(base_url=url, headers={"authorization": f"Bearer {prepared.key}"}, timeout=30) as admin:
            tokens = {
                "admin": prepared.key,
                "device": device.token,
                "collector": collector_token(admin),
                "client": client_token(admin),
            }
        (folder / "schemathesis.toml").write_text(config_toml())
        yield Target(url, tokens, folder)
        assert '"level":"error"' not in server.log_text().replace(" ", "")


def collector_token(admin: httpx.Client) -> str:
    base = "/api/edge/v1/admin"
    site_id = admin.post(f"{base}/sites", json={"name": "site"}).json()["id"]
    admin.post(f"{base}/miners", json={"site_id": site_id, "name": "miner"}).raise_for_status()
    added = admin.post(f"{base}/devices", json={"site_id": site_id, "device_name": "collector"})
    return str(added.json()["token"])


def client_token(admin: httpx.Client) -> str:
    registration = {
        "name": "client",
        "client_id": "client-1",
        "token_endpoint_auth_method": "client_secret_basic",
        "scope": "eventpolling ssf.read ssf.manage",
    }
    secret = admin.post("/admin/clients", json=registration).json()["client_secret"]
    form = {"grant_type": "client_credentials"}
    return str(admin.post("/token", data=form, auth=("client-1", secret)).json()["access_token"])


# The admin comes last: it revokes the others' credentials.
@pytest.mark.parametrize("caller", ["nobody", "device", "collector", "client", "admin"])
def test_every_check_holds(target: Target, caller: str) -> None:
    token = target.tokens.get(caller)
    header = ("--header", f"Authorization: Bearer {token}") if token else ()
    tags = [word for tag in TAGS_OF[caller] for word in ("--include-tag", tag)]
    options = ["--checks", "all", "--max-examples", "2", "--seed", "1", "--no-shrink", "--no-color"]
    command = [PROGRAM, "--config-file", str(target.folder / "schemathesis.toml"), "run", f"{target.url}/openapi.json"]
    run = subprocess.run(
        [*command, *header, *tags, *options, "--phases", "examples,coverage,fuzzing"],
        cwd=target.folder,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=TIMEOUT_SECONDS,
    )
    assert run.returncode == 0, re.sub(r"(?s).*?(=+ (ERRORS|FAILURES) =+)", r"\1", run.stdout, count=1) + run.stderr


def test_exceptions_name_existing_operations() -> None:
    names = {route_name(route) for route in every_route()}
    assert {*RULES_BEYOND_SCHEMA, *UNPROCESSABLE, *BATCHES, *LONG_POLLS, *LOCKS_OUT} <= names
