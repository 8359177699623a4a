"""A backup taken while the server runs, as in docs/operations.md, and the tokens of devices after a restore."""

import shutil
import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from pathlib import Path

import httpx
import pytest

from restante.identity import api_keys
from restante.identity.callers import Role
from restante.identity.people import users
from restante.server.app import opened
from restante.server.config.settings import Settings
from restante.server.data_folder import DataFolder
from tests.updates.auth_app import code_of, registration


@asynccontextmanager
async def serving(data: Path) -> AsyncIterator[httpx.AsyncClient]:
    """A real node on the folder, and an HTTP client with an admin's API key."""
    with opened(Settings(data=data)) as node:
        await node.identity.device_tokens.start()
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


async def register(client: httpx.AsyncClient) -> str:
    response = await client.post("/apiv1/users/1/devices", json=registration())
    assert response.status_code == 200, response.text
    return str(response.json()["data"]["session"]["refresh_token"])


async def refresh(client: httpx.AsyncClient, token: str) -> httpx.Response:
    return await client.post("/auth/refresh", json={"refresh_token": token})


async def refresh_repeatedly(client: httpx.AsyncClient, token: str, times: int = 1) -> str:
    for _ in range(times):
        response = await refresh(client, token)
        assert response.status_code == 200, response.text
        token = response.json()["data"]["refresh_token"]
    return token


@pytest.fixture
def folders(tmp_path: Path) -> tuple[DataFolder, DataFolder]:
    data, backup = DataFolder(tmp_path / "data"), DataFolder(tmp_path / "backup")
    with opened(Settings(data=data.path)) as node:
        node.database.write_now(users.add, "ada@example.com", "no hash", Role.admin)
    return data, backup


async def test_devices_keep_access_after_restore(folders: tuple[DataFolder, DataFolder]) -> None:
    data, backup = folders
    async with serving(data.path) as client:
        online, offline = await register(client), await register(client)
        online = await refresh_repeatedly(client, online, times=2)
        back_up(data, backup)
        online = await refresh_repeatedly(client, online, times=3)
    async with serving(backup.path) as client:
        for token in (online, offline):
            await refresh_repeatedly(client, token, times=3)


async def test_reused_token_is_detected_after_restore(folders: tuple[DataFolder, DataFolder]) -> None:
    data, backup = folders
    async with serving(data.path) as client:
        first = await register(client)
        second = await refresh_repeatedly(client, first)
        back_up(data, backup)
        newest = await refresh_repeatedly(client, second, times=3)
    async with serving(backup.path) as client:
        successor = await refresh_repeatedly(client, newest)
        response = await refresh(client, second)
        assert code_of(response) == (401, 10003)
        assert response.json()["error"]["key"] == "refresh_token_rotated"
        assert code_of(await refresh(client, successor)) == (401, 5018)
