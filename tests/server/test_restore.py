"""A backup taken while the server runs, as docs/operations.md says, and what devices find after it was restored."""

import shutil
import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from pathlib import Path

import httpx
import pytest

from restante.identity import api_keys, users
from restante.identity.callers import Role
from restante.server.app import opened
from restante.server.data_folder import DataFolder
from restante.server.settings import Settings
from tests.updates.auth_app import code_of, registration


@asynccontextmanager
async def serving(data: Path) -> AsyncIterator[httpx.AsyncClient]:
    """A real node on the folder, and its administrator's client."""
    with opened(Settings(data=data)) as node:
        await node.tokens.start()
        _, key = node.database.write_now(api_keys.create, "test", Role.admin)
        transport = httpx.ASGITransport(node.application(with_lifespan=False))
        headers = {"Authorization": f"Bearer {key}"}
        async with httpx.AsyncClient(
            transport=transport, base_url="http://restante.example", headers=headers
        ) as client:
            yield client


def back_up(data: DataFolder, backup: DataFolder) -> None:
    backup.create()
    with closing(sqlite3.connect(data.database_path)) as source, closing(sqlite3.connect(backup.database_path)) as copy:
        source.backup(copy)
    shutil.copy(data.master_key_path, backup.master_key_path)


async def registered(client: httpx.AsyncClient) -> str:
    answer = await client.post("/apiv1/users/1/devices", json=registration())
    assert answer.status_code == 200, answer.text
    return str(answer.json()["data"]["session"]["refresh_token"])


async def refresh(client: httpx.AsyncClient, token: str) -> httpx.Response:
    return await client.post("/auth/refresh", json={"refresh_token": token})


async def refreshed(client: httpx.AsyncClient, token: str, times: int = 1) -> str:
    for _ in range(times):
        answer = await refresh(client, token)
        assert answer.status_code == 200, answer.text
        token = answer.json()["data"]["refresh_token"]
    return token


@pytest.fixture
def folders(tmp_path: Path) -> tuple[DataFolder, DataFolder]:
    data, backup = DataFolder(tmp_path / "data"), DataFolder(tmp_path / "backup")
    with opened(Settings(data=data.path)) as node:
        node.database.write_now(users.add, "ada@example.com", "no hash", Role.admin)
    return data, backup


async def test_a_restore_locks_no_device_out(folders: tuple[DataFolder, DataFolder]) -> None:
    data, backup = folders
    async with serving(data.path) as client:
        online, offline = await registered(client), await registered(client)
        online = await refreshed(client, online, times=2)
        back_up(data, backup)
        online = await refreshed(client, online, times=3)
    async with serving(backup.path) as client:
        for token in (online, offline):
            await refreshed(client, token, times=3)


async def test_after_a_restore_a_token_used_twice_is_still_noticed(folders: tuple[DataFolder, DataFolder]) -> None:
    data, backup = folders
    async with serving(data.path) as client:
        first = await registered(client)
        second = await refreshed(client, first)
        back_up(data, backup)
        newest = await refreshed(client, second, times=3)
    async with serving(backup.path) as client:
        successor = await refreshed(client, newest)
        answer = await refresh(client, second)
        assert code_of(answer) == (401, 10003)
        assert answer.json()["error"]["key"] == "refresh_token_rotated"
        assert code_of(await refresh(client, successor)) == (401, 5018)
