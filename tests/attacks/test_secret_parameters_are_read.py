"""Attack: read the password of a pool from anything that a viewer, an operator or a thief of the database can read."""

import logging
from contextlib import closing
from pathlib import Path

import httpx
import pytest

from restante.commands.dispatch.claims import ClaimRequest, claim
from restante.commands.dispatch.poll_response import build_poll_response
from restante.commands.dispatch.signing import verify_command
from restante.commands.lifecycle import creation
from restante.commands.lifecycle.creation import CommandRequest
from restante.commands.sites import collectors, miners, sites
from restante.commands.sites.miners import MinerRequest
from restante.database.database import Database
from restante.database.queries import Query
from restante.database.sqlite import SqliteEngine
from restante.identity import api_keys
from restante.identity.callers import CollectorCaller, Role
from restante.server.app import opened
from restante.server.config.options import commands_options
from restante.server.config.settings import Settings
from tests.defaults import claim_options
from tests.server.live_server import LiveServer

ADMIN = "/api/edge/v1/admin"
PASSWORD = "hunter2-of-the-pool"
URL_PASSWORD = "s3cret-in-the-url"
POOL = {"url": f"stratum+tcp://worker:{URL_PASSWORD}@pool.example:3333", "password": PASSWORD, "user": "w"}
AS_READ = {
    "pool_password": PASSWORD,
    "pool_url": f"stratum+tcp://worker:{URL_PASSWORD}@pool.example:3333",
    "pool_user": "w",
}
MASKED = {
    "pool_password": "[secret]",
    "pool_url": "stratum+tcp://worker:[secret]@pool.example:3333",
    "pool_user": "w",
}
_TO_PLAIN = Query(
    "to_plain",
    "UPDATE miner_commands SET params = :params, sealed_params = NULL",
)
_FORGET_PASS = Query("forget_pass", "UPDATE revisions SET value = 0 WHERE name = 'sealed_params'")


def assert_unreadable(text: bytes | str, place: str) -> None:
    content = text.encode() if isinstance(text, str) else text
    assert PASSWORD.encode() not in content, place
    assert URL_PASSWORD.encode() not in content, place


def assert_files_unreadable(folder: Path) -> None:
    for file in folder.iterdir():
        assert_unreadable(file.read_bytes(), file.name)


def test_no_operator_response_file_or_log_shows_a_secret_parameter_but_the_poll_does(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    caplog.set_level(logging.DEBUG)
    with closing(LiveServer(tmp_path, has_services=False, enable_command_signature=True)) as server:
        write = server.node.database.write_now
        trail, box = server.node.commands.trail, server.node.commands.box
        site_id = write(sites.add, trail, "North", "tests").id
        miner_id = write(miners.add, trail, MinerRequest(site_id, "miner"), "tests").id
        collector = write(collectors.create, trail, box, site_id, None, "collector", "tests")
        operator = {"authorization": f"Bearer {write(api_keys.create, 'operator', Role.operator)[1]}"}
        viewer = {"authorization": f"Bearer {write(api_keys.create, 'viewer', Role.viewer)[1]}"}
        with httpx.Client(base_url=f"http://127.0.0.1:{server.fast_port}") as client:
            command = {"site_id": site_id, "miner_id": miner_id, "command_type": "set_pool", "params": POOL}
            keyed = {**operator, "idempotency-key": "once"}
            created = client.post(f"{ADMIN}/commands", json=command, headers=keyed)
            assert created.status_code == 201, created.text
            replayed = client.post(f"{ADMIN}/commands", json=command, headers=keyed)
            assert (replayed.headers["idempotency-replayed"], replayed.text) == ("true", created.text)
            other = {**command, "params": {**POOL, "password": "another"}}
            assert client.post(f"{ADMIN}/commands", json=other, headers=keyed).status_code == 422
            rule = client.post(
                f"{ADMIN}/rules",
                json={
                    "name": "other pool when offline",
                    "site_id": site_id,
                    "trigger_type": "offline",
                    "trigger_duration_seconds": 60,
                    "action_type": "POOL_SET",
                    "action_parameters": POOL,
                },
                headers=operator,
            )
            assert (rule.status_code, rule.json()["action_parameters"]) == (201, MASKED)
            command_path = f"{ADMIN}/commands/{created.json()['command_id']}"
            assert client.get(command_path, headers=viewer).json()["params"] == MASKED
            for path in (
                f"{ADMIN}/commands",
                command_path,
                f"{command_path}/why",
                f"{ADMIN}/rules",
                f"{ADMIN}/rules/{rule.json()['id']}",
                f"{ADMIN}/audit",
                f"{ADMIN}/audit/export",
                "/openapi.json",
            ):
                response = client.get(path, headers=viewer)
                assert response.status_code == 200, path
                assert_unreadable(response.content, path)
            for response in (created, replayed, rule):
                assert_unreadable(response.content, str(response.url))
            polled = client.get("/api/edge/v1/commands/poll", headers={"authorization": f"Bearer {collector.token}"})
            (received,) = polled.json()["commands"]
            assert received["params"] == AS_READ
            assert list(received["params"]) == sorted(AS_READ)
            assert verify_command(received, collector.hmac_secret).is_valid
            cancelled = client.post(f"{command_path}/cancel", headers=operator)
            assert_unreadable(cancelled.content, "cancel")
        assert_files_unreadable(tmp_path)
    assert_files_unreadable(tmp_path)
    assert_unreadable("".join(record.getMessage() for record in caplog.records), "logs")
    assert_unreadable("".join(capfd.readouterr()), "output")


def test_server_start_removes_secret_parameters_of_an_older_version_from_the_file(tmp_path: Path) -> None:
    settings = Settings(data=tmp_path)
    with opened(settings) as node:
        trail, box, write = node.commands.trail, node.commands.box, node.database.write_now
        site_id = write(sites.add, trail, "North", "tests").id
        miner_id = write(miners.add, trail, MinerRequest(site_id, "miner"), "tests").id
        collector_id = write(collectors.create, trail, box, site_id, None, "collector", "tests").id
        request = CommandRequest(
            site_id=site_id, miner_id=miner_id, command_type="POOL_SET", params=b'{"pool_url":"stratum+tcp://p:1"}'
        )
        write(creation.create, trail, request, "tests", commands_options(settings).for_creation(box))
    with closing(Database(SqliteEngine(tmp_path / "restante.db"))) as database:
        plain = f'{{"pools":[{{"password":"{PASSWORD}","url":"stratum+tcp://p:1"}}]}}'
        database.write_now(lambda conn: conn.run(_TO_PLAIN, params=plain))
        database.write_now(lambda conn: conn.run(_FORGET_PASS))
    assert any(PASSWORD.encode() in file.read_bytes() for file in tmp_path.iterdir())
    with opened(settings) as node:
        assert_files_unreadable(tmp_path)
        claims = ClaimRequest(CollectorCaller(collector_id, site_id, None), None, 1)
        claimed = node.database.write_now(claim, node.commands.trail, claim_options(), claims)
        (command,) = build_poll_response(claimed, node.commands.box, 60).commands
        assert command.params == {"pool_password": PASSWORD, "pool_url": "stratum+tcp://p:1"}
    assert_files_unreadable(tmp_path)
