"""The samples of the developers' portal: they run as they are against a real server, and fit the settings."""

import html
import json
import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from restante.events.clients import clients
from restante.events.clients.clients import ClientRegistration, RegisteredClient
from restante.events.portal.samples import samples
from restante.events.publishing.publishing import publish
from restante.server.config.options import portal_facts
from restante.server.config.settings import Settings
from tests.events.publish_fixture import event_request
from tests.server.live_server import LiveServer

_SAMPLE = re.compile(r'<code class="bash">(.*?)</code>', re.DOTALL)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[LiveServer]:
    server = LiveServer(tmp_path)
    yield server
    server.close()


@pytest.mark.slow
def test_shell_samples_of_the_page_get_a_token_poll_and_acknowledge(server: LiveServer, tmp_path: Path) -> None:
    write = server.node.database.write_now
    client: RegisteredClient = write(clients.add, ClientRegistration("n", "client_secret_basic"))
    page = httpx.get(f"http://127.0.0.1:{server.fast_port}/developer").text
    scripts = [html.unescape(each) for each in _SAMPLE.findall(page)]
    assert len(scripts) == 3
    write(publish, event_request(client.client_id))
    folder = tmp_path / "client"
    folder.mkdir()
    environment = {**os.environ, "CLIENT_ID": client.client_id, "CLIENT_SECRET": str(client.client_secret)}

    def run(script: str) -> str:
        return subprocess.run(
            ["bash", "-euo", "pipefail", "-c", script],
            cwd=folder,
            env=environment,
            check=True,
            capture_output=True,
            text=True,
            timeout=60,
        ).stdout

    assert run(scripts[0]) == ""
    claims = json.loads(run(scripts[1]))
    assert claims["aud"] == client.client_id
    assert json.loads(run(scripts[2])) == {"sets": {}, "moreAvailable": False}
    assert (folder / "authorization").stat().st_mode & 0o077 == 0


def test_samples_follow_how_clients_authenticate() -> None:
    here = [each.title for each in samples(portal_facts(Settings()))]
    assert "Get an access token with a secret" in here
    assert "Get an access token with a certificate" not in here
    facts = portal_facts(
        Settings(
            public_url="https://bank.example",
            mtls_url="https://mtls.bank.example",
            tls_certificate=Path("x"),
            tls_key=Path("x"),
            tls_client_ca=Path("x"),
        )
    )
    titles = {each.title: each.text for each in samples(facts)}
    assert "Get an access token with a secret" not in titles
    assert "https://mtls.bank.example/token" in titles["Get an access token with a certificate"]
    assert "--cert client.crt" in titles["Poll, and read what the events say"]
    assert "https://mtls.bank.example/events" in titles["Acknowledge what was polled"]
