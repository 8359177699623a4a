"""Long polls that are parked while a bulk change reaches 100,000 devices: all must be answered, and memory stays flat.

Every tenth device has a connection and a poll that is parked again whenever it ends without a signal. The job is made
over HTTP on the real server. The memory is the anonymous memory of the server's process when all are parked, after the
job, and after a second one: the first fills the page cache of SQLite and the known ends of all logs, the second must
add nothing that grows with the number of changes.
"""

import asyncio
import os
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import uvloop

from bench.data import device_data
from bench.tools.processes import CLIENT_CORE, SERVER_CORE, free_port, pinned, serve_command
from restante.database.database import Database
from restante.database.sqlite import SqliteEngine
from restante.identity import api_keys
from restante.identity.callers import Role

DEVICES = 100_000
PARKED = 10_000
# The first polls are spread: each verifies a new token.
CONNECT_AT_ONCE = 100
WAIT_SECONDS = 600.0
ITEM: dict[str, Any] = {"id": "site", "type": "copy", "from": ["fullchain.pem"]}
_POLL = (
    "GET /apiv1/devices/self/updates?wait=30 HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer %s\r\n"
    "If-None-Match: 0-0\r\n\r\n"
)


class _Answers:
    def __init__(self) -> None:
        self.answered = 0
        self.others: dict[bytes, int] = {}
        self.last_at = 0.0


class _Device(asyncio.Protocol):
    """Polls until it gets its signal."""

    def __init__(self, token: str, answers: _Answers) -> None:
        self._request = (_POLL % token).encode()
        self._answers = answers
        self._is_answered = False

    def connection_made(self, transport: Any) -> None:
        self._transport = transport
        transport.write(self._request)

    def data_received(self, data: bytes) -> None:
        status = data[9:12]
        if status == b"200" and not self._is_answered:
            self._is_answered = True
            self._answers.answered += 1
            self._answers.last_at = time.monotonic()
        elif status == b"204":
            self._transport.write(self._request)
        elif not self._is_answered:
            self._answers.others[status] = self._answers.others.get(status, 0) + 1


def parked_during_bulk() -> dict[str, float]:
    with tempfile.TemporaryDirectory() as name:
        folder = device_data.prepare(Path(name) / "data", DEVICES)
        step = DEVICES // PARKED
        tokens = asyncio.run(device_data.mint(folder, range(step, DEVICES + 1, step)))
        database = Database(SqliteEngine(folder.database_path))
        _, key = database.write_now(api_keys.create, "bench", Role.operator)
        database.close()
        port = free_port()
        command = serve_command(folder.path, port, "--log-level", "error", "--connections-max", str(2 * PARKED))
        with pinned(SERVER_CORE, command, port, log=Path(name) / "server.log") as pid:
            os.sched_setaffinity(0, {int(CLIENT_CORE)})
            with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
                return runner.run(_measure(pid, port, tokens, key))


async def _measure(pid: int, port: int, tokens: list[str], key: str) -> dict[str, float]:
    loop = asyncio.get_running_loop()
    answers = _Answers()
    for start in range(0, PARKED, CONNECT_AT_ONCE):
        part = tokens[start : start + CONNECT_AT_ONCE]
        connections = (loop.create_connection(partial(_Device, token, answers), "127.0.0.1", port) for token in part)
        await asyncio.gather(*connections)
    headers = {"authorization": f"Bearer {key}"}
    async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", headers=headers, timeout=60) as client:
        await _until_parked(client)
        parked_mib = _anonymous_mib(pid)
        started = time.monotonic()
        first_mib = await _run_job(client, pid, "/etc/ssl/site.pem")
        while answers.answered < PARKED and time.monotonic() - started < WAIT_SECONDS:
            await asyncio.sleep(0.1)
        second_mib = await _run_job(client, pid, "/etc/ssl/other.pem")
    assert answers.others == {}, answers.others
    return {
        f"parked polls of {PARKED:,} that got their signal": answers.answered,
        "seconds from the request to the last of these": answers.last_at - started,
        "MiB of the server, all parked": parked_mib,
        "MiB after the first job": first_mib,
        "MiB after a second job": second_mib,
    }


async def _run_job(client: httpx.AsyncClient, pid: int, target: str) -> float:
    """Put a config on all devices until every signal is published; the memory of the server then."""
    params = {"installs": [{**ITEM, "to": [target]}]}
    body = {"action": "put_config", "filter": {"status": "active"}, "params": params}
    made = await client.post("/apiv1/devices/bulk", json=body)
    path = f"/apiv1/jobs/{made.raise_for_status().json()['data']['job_id']}"
    deadline = time.monotonic() + WAIT_SECONDS
    while time.monotonic() < deadline:
        job = (await client.get(path)).json()["data"]
        [outbox] = (await client.get("/apiv1/outboxes")).json()["data"]["items"]
        if job["state"] == "done" and not outbox["pending"]:
            assert job["done"] == DEVICES, job
            return _anonymous_mib(pid)
        await asyncio.sleep(0.5)
    raise TimeoutError("the job does not end")


async def _until_parked(client: httpx.AsyncClient) -> None:
    deadline = time.monotonic() + WAIT_SECONDS
    while time.monotonic() < deadline:
        text = (await client.get("/metrics")).text
        parked = [float(line.split()[-1]) for line in text.splitlines() if line.startswith("restante_parked_polls")]
        if sum(parked) >= PARKED:
            return
        await asyncio.sleep(0.2)
    raise TimeoutError("the polls are not parked")


def _anonymous_mib(pid: int) -> float:
    text = Path(f"/proc/{pid}/status").read_text()
    return int(text.partition("RssAnon:")[2].split()[0]) / 1024
