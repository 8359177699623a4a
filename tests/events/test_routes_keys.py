import pytest

from restante.database.database import Database
from restante.events import event_keys
from restante.events.routes_keys import JWKS_MAX_AGE_SECONDS
from restante.identity.callers import Role
from tests.events.event_desk import EventDesk, refused_at
from tests.events.publishers import MASTER


@pytest.fixture
def desk(database: Database) -> EventDesk:
    return EventDesk(database)


async def test_the_keys_are_for_everybody_and_may_be_kept_for_a_while(desk: EventDesk, database: Database) -> None:
    assert (await desk.call("GET", "/jwks.json", role=None)).json() == {"keys": []}
    key = database.write_now(event_keys.store_first, event_keys.make(MASTER, "PS256"))
    answer = await desk.call("GET", "/jwks.json", role=None)
    [published] = answer.json()["keys"]
    assert (published["kid"], published["alg"], published["use"], published["kty"]) == (key.kid, "PS256", "sig", "RSA")
    assert "d" not in published
    assert answer.headers["cache-control"] == f"public, max-age={JWKS_MAX_AGE_SECONDS}"
    assert answer.headers["content-type"] == "application/json"


async def test_rotate_list_and_withdraw(desk: EventDesk) -> None:
    first = (await desk.call("POST", "/admin/events/keys/rotate", {"alg": "EdDSA"})).json()
    second = await desk.call("POST", "/admin/events/keys/rotate", {"alg": "EdDSA"})
    assert second.status_code == 201
    listed = (await desk.call("GET", "/admin/events/keys", role=Role.viewer)).json()["items"]
    assert [(key["kid"], key["status"]) for key in listed] == [
        (second.json()["kid"], "coming"),
        (first["kid"], "signing"),
    ]
    withdrawn = await desk.call("POST", f"/admin/events/keys/{first['kid']}/withdraw")
    assert withdrawn.json() == {"kid": first["kid"], "signed_again": 0}
    keys = (await desk.call("GET", "/jwks.json", role=None)).json()["keys"]
    assert [key["kid"] for key in keys] == [second.json()["kid"]]
    again = await desk.call("POST", f"/admin/events/keys/{first['kid']}/withdraw")
    assert again.status_code == 409


async def test_without_a_body_the_usual_algorithm_is_rotated(desk: EventDesk) -> None:
    assert (await desk.call("POST", "/admin/events/keys/rotate")).status_code == 201
    [key] = (await desk.call("GET", "/admin/events/keys")).json()["items"]
    assert key["alg"] == "PS256"


async def test_what_is_refused(desk: EventDesk) -> None:
    rotate = "/admin/events/keys/rotate"
    assert refused_at(await desk.call("POST", rotate, {"alg": "HS256"})) == (400, "Field.Invalid", "alg")
    assert refused_at(await desk.call("POST", rotate, {"alg": "PS256", "x": 1})) == (400, "Field.Unexpected", "x")
    assert refused_at(await desk.call("POST", "/admin/events/keys/none/withdraw"))[0] == 404
    assert (await desk.call("POST", rotate, {}, role=Role.operator)).status_code == 403
