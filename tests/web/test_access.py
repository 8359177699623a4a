import pytest
from starlette.requests import Request

from restante.core.errors import NotAllowed, NotAuthenticated
from restante.database.database import Database
from restante.identity import api_keys, client_tokens, sessions, users
from restante.identity.callers import Caller, ClientCaller, DeviceCaller, KeyHolder, Person, Role
from restante.identity.device_tokens import DeviceTokens
from restante.identity.issuers import OutsideIssuers
from restante.identity.master_key import MasterKey
from restante.identity.signing_keys import SigningKeys
from restante.web.access import ROLE_NEEDED, SCOPES_NEEDED, SESSION_COOKIE, Gate, bearer_token
from restante.web.routes import Access
from tests.conftest import ManualClock
from tests.identity.population import add_device
from tests.identity.test_client_tokens import add_client

HOST = "restante.test"
ROLES = list(Role)


def request(
    *headers: tuple[str, str], method: str = "GET", cookie: str | None = None, user_id: str | None = None
) -> Request:
    sent = [("host", HOST), *headers]
    if cookie is not None:
        sent.append(("cookie", f"{SESSION_COOKIE}={cookie}"))
    scope = {
        "type": "http",
        "method": method,
        "headers": [(name.encode(), value.encode("latin-1")) for name, value in sent],
        "path_params": {} if user_id is None else {"user_id": user_id},
    }
    return Request(scope)


def bearing(token: str, user_id: str | None = None) -> Request:
    return request(("authorization", f"Bearer {token}"), user_id=user_id)


class House:
    """The gate, with a person and an API key of every role, and a device."""

    def __init__(self, database: Database, tokens: DeviceTokens) -> None:
        self.database = database
        self.tokens = tokens
        self.gate = Gate(database, tokens)
        self.users: dict[Role, int] = {}
        self.cookies: dict[Role, str] = {}
        self.keys: dict[Role, str] = {}
        for role in ROLES:
            user_id = database.write_now(users.add, f"{role.name}@example.com", "x", role)
            self.users[role] = user_id
            self.cookies[role] = database.write_now(sessions.start, user_id)
            self.keys[role] = database.write_now(api_keys.create, role.name, role)[1]
        self.owner = self.users[Role.viewer]
        self.device_id = add_device(database, self.owner)
        self.device_token = tokens.mint(self.owner, self.device_id)

    async def admits(self, request: Request, access: Access) -> Caller | int | None:
        """The caller, or the status of the refusal."""
        try:
            return await self.gate.admit(request, access)
        except (NotAuthenticated, NotAllowed) as refusal:
            return refusal.status


@pytest.fixture
async def house(database: Database, clock: ManualClock) -> House:
    keys = SigningKeys(database, MasterKey(bytes(32)))
    tokens = DeviceTokens(database, keys, OutsideIssuers(), clock=lambda: clock.now_ms / 1000)
    await tokens.start()
    return House(database, tokens)


async def test_an_open_door_asks_nobody_anything(house: House) -> None:
    assert await house.admits(request(), Access.open) is None
    assert await house.admits(bearing("nonsense"), Access.open) is None


async def test_nobody_gets_through_any_other_door(house: House) -> None:
    for access in Access:
        if access is not Access.open:
            assert await house.admits(request(), access) == 401
            assert await house.admits(bearing("nonsense"), access) == 401
            assert await house.admits(request(cookie="nonsense"), access) == 401


async def test_a_device_gets_through_its_door_and_no_other(house: House) -> None:
    caller = await house.admits(bearing(house.device_token), Access.device)
    assert isinstance(caller, DeviceCaller)
    assert (caller.device_id, caller.user_id) == (house.device_id, house.owner)
    for access in Access:
        if access not in (Access.open, Access.device):
            assert await house.admits(bearing(house.device_token), access) == 401


# Written down here once more: what a token of each scope opens.
DOORS_OF_SCOPES = {
    "eventpolling": {Access.client},
    "ssf.read": {Access.signals_read},
    "ssf.manage": {Access.signals_read, Access.signals_manage},
    "eventpolling ssf.read": {Access.client, Access.signals_read},
    "accounts": set(),
}


@pytest.mark.parametrize("scope", DOORS_OF_SCOPES)
async def test_a_client_gets_through_the_doors_it_has_the_scope_for(house: House, scope: str) -> None:
    client = house.database.write_now(add_client)
    token = house.database.write_now(client_tokens.issue, client, scope, None, 60)
    for access in set(Access) - {Access.open}:
        admitted = await house.admits(bearing(token), access)
        if access in DOORS_OF_SCOPES[scope]:
            assert isinstance(admitted, ClientCaller)
            assert admitted.id == client
        else:
            assert admitted == (403 if access in SCOPES_NEEDED else 401)


async def test_people_and_keys_do_not_get_through_the_doors_of_machines(house: House) -> None:
    for access in (Access.device, Access.collector, *SCOPES_NEEDED):
        assert await house.admits(request(cookie=house.cookies[Role.admin]), access) == 401
        assert await house.admits(bearing(house.keys[Role.admin]), access) == 401


async def test_a_devices_token_must_name_a_device_that_is_the_users(house: House) -> None:
    stranger = house.users[Role.operator]
    assert await house.admits(bearing(house.tokens.mint(stranger, house.device_id)), Access.device) == 403
    assert await house.admits(bearing(house.tokens.mint(house.owner, 999)), Access.device) == 403


@pytest.mark.parametrize("access", ROLE_NEEDED)
async def test_a_role_is_enough_or_it_is_not(house: House, access: Access) -> None:
    needed = ROLE_NEEDED[access]
    for role in ROLES:
        by_key = await house.admits(bearing(house.keys[role]), access)
        assert by_key == 403 if role < needed else isinstance(by_key, KeyHolder) and by_key.role is role
        by_cookie = await house.admits(request(cookie=house.cookies[role]), access)
        enough = Role.admin if access in (Access.oversee, Access.steer) else needed
        assert by_cookie == 403 if role < enough else isinstance(by_cookie, Person) and by_cookie.role is role


def test_every_door_is_somebodys() -> None:
    by_kind = {Access.open, Access.device, Access.collector, Access.person}
    assert by_kind | set(SCOPES_NEEDED) | set(ROLE_NEEDED) == set(Access)


async def test_a_door_for_people_is_not_for_keys(house: House) -> None:
    person = await house.admits(request(cookie=house.cookies[Role.viewer]), Access.person)
    assert isinstance(person, Person)
    assert person.user_id == house.owner
    assert await house.admits(bearing(house.keys[Role.admin]), Access.person) == 403


async def test_a_person_sees_only_their_own_and_a_key_acts_for_everybody(house: House) -> None:
    own, other = str(house.owner), str(house.users[Role.admin])
    cookie = house.cookies[Role.viewer]
    assert isinstance(await house.admits(request(cookie=cookie, user_id=own), Access.read), Person)
    for user_id in (other, "0" + own, "x", ""):
        assert await house.admits(request(cookie=cookie, user_id=user_id), Access.read) == 403
    assert await house.admits(request(cookie=cookie, user_id=other), Access.person) == 403
    admin = house.cookies[Role.admin]
    assert await house.admits(request(cookie=admin, user_id=own), Access.administer) == 403
    assert isinstance(await house.admits(bearing(house.keys[Role.viewer], user_id=other), Access.read), KeyHolder)


async def test_a_header_counts_before_a_cookie(house: House) -> None:
    both = request(("authorization", "Bearer nonsense"), cookie=house.cookies[Role.admin])
    assert await house.admits(both, Access.read) == 401


async def test_a_revoked_key_and_an_ended_session_are_nobody(house: House, clock: ManualClock) -> None:
    key_id = house.database.read_now(api_keys.list_all)[0].id
    key = house.keys[Role(1)]
    assert isinstance(await house.admits(bearing(key), Access.read), KeyHolder)
    house.database.write_now(api_keys.revoke, key_id)
    assert await house.admits(bearing(key), Access.read) == 401
    house.database.write_now(sessions.end, house.cookies[Role.viewer])
    assert await house.admits(request(cookie=house.cookies[Role.viewer]), Access.read) == 401
    clock.advance(sessions.SESSION_SECONDS)
    assert await house.admits(request(cookie=house.cookies[Role.admin]), Access.read) == 401


@pytest.mark.parametrize("origin", [f"https://{HOST}", f"http://{HOST}"])
async def test_a_page_of_ours_may_act_with_the_cookie(house: House, origin: str) -> None:
    ours = request(("origin", origin), method="POST", cookie=house.cookies[Role.admin])
    assert isinstance(await house.admits(ours, Access.operate), Person)


@pytest.mark.parametrize(
    "origin",
    [
        "https://evil.example", "null", "", HOST, f"https://{HOST}.evil.example", f"https://evil.example/{HOST}",
        f"https://{HOST}@evil.example", f"https://{HOST}:8443", "https://[::1", "http://", "\xff",
    ],
)  # fmt: skip
async def test_a_page_of_another_origin_may_not(house: House, origin: str) -> None:
    for method in ("POST", "PUT", "PATCH", "DELETE"):
        foreign = request(("origin", origin), method=method, cookie=house.cookies[Role.admin])
        assert await house.admits(foreign, Access.operate) == 403
        assert await house.admits(foreign, Access.person) == 403
    # It could not read the answer of a GET; and a key is not sent by a browser on its own.
    looking = request(("origin", origin), cookie=house.cookies[Role.admin])
    assert isinstance(await house.admits(looking, Access.read), Person)
    by_key = request(("origin", origin), ("authorization", f"Bearer {house.keys[Role.admin]}"), method="POST")
    assert isinstance(await house.admits(by_key, Access.operate), KeyHolder)


async def test_a_client_that_names_no_origin_is_no_browser(house: House) -> None:
    plain = request(method="POST", cookie=house.cookies[Role.admin])
    assert isinstance(await house.admits(plain, Access.operate), Person)


async def test_a_page_may_ask_who_is_signed_in(house: House) -> None:
    person = await house.gate.person_of(request(cookie=house.cookies[Role.viewer]))
    assert person == Person(house.owner, "viewer@example.com", Role.viewer)
    assert await house.gate.person_of(request()) is None
    assert await house.gate.person_of(request(cookie="nonsense")) is None
    assert await house.gate.person_of(request(cookie="")) is None


@pytest.mark.parametrize("value", ["Bearer abc", "bearer abc", "BEARER  abc ", "Bearer\tabc"])
def test_a_bearer_token_is_read(value: str) -> None:
    if "\t" in value:
        with pytest.raises(NotAuthenticated):
            bearer_token(request(("authorization", value)))
    else:
        assert bearer_token(request(("authorization", value))) == "abc"


@pytest.mark.parametrize("value", ["", "abc", "Bearer", "Bearer ", "Basic abc", "Token abc", "Bearerabc"])
def test_any_other_header_is_nobodys(value: str) -> None:
    with pytest.raises(NotAuthenticated):
        bearer_token(request(("authorization", value)))


def test_two_headers_are_nobodys() -> None:
    with pytest.raises(NotAuthenticated):
        bearer_token(request(("authorization", "Bearer a"), ("authorization", "Bearer a")))
    with pytest.raises(NotAuthenticated):
        bearer_token(request())
