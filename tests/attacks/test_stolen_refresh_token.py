"""A refresh token is stolen and used twice: the family ends, and with it every access token issued so far."""

from typing import Any

from restante.database.database import Database
from tests.conftest import ManualClock
from tests.updates.auth_app import AuthApp, serving


async def refresh(app: AuthApp, token: str) -> Any:
    async with app.client() as client:
        return await client.post("/auth/refresh", json={"refresh_token": token})


async def test_access_tokens_of_a_stolen_family_end_at_once(database: Database, clock: ManualClock) -> None:
    async with serving(database, clock) as app:
        person = await app.signed_in()
        session = (await person.register())["session"]
        stolen = session["refresh_token"]
        thief = (await refresh(app, stolen)).json()["data"]
        # Both access tokens are verified, and cached.
        for token in (session["access_token"], thief["access_token"]):
            assert (await app.who(token)).status_code == 200

        assert (await refresh(app, stolen)).status_code == 401
        for token in (session["access_token"], thief["access_token"]):
            assert (await app.who(token)).status_code == 401
        assert (await refresh(app, thief["refresh_token"])).status_code == 401


async def test_device_gets_new_tokens_after_a_theft(database: Database, clock: ManualClock) -> None:
    async with serving(database, clock) as app:
        person = await app.signed_in()
        registered = await person.register()
        device_id, stolen = registered["device"]["id"], registered["session"]["refresh_token"]
        await refresh(app, stolen)
        assert (await refresh(app, stolen)).status_code == 401

        code = await app.approved_code(person)
        async with app.client() as client:
            body = {"action": "device_poll", "device_code": code, "device_id": device_id}
            fresh = (await client.post("/auth/device", json=body)).json()["data"]
        assert (await app.who(fresh["access_token"])).status_code == 200
        again = (await refresh(app, fresh["refresh_token"])).json()["data"]
        assert (await app.who(again["access_token"])).status_code == 200
        # A further use of the old token ends nothing of the new session.
        assert (await refresh(app, stolen)).status_code == 401
        assert (await app.who(again["access_token"])).status_code == 200
        # Nor do the tokens of other devices end.
        other = (await person.register())["session"]["access_token"]
        assert (await app.who(other)).status_code == 200
