import pytest
from starlette.requests import Request

from restante.core.errors import NotAllowed, NotAuthenticated
from restante.database.database import Database
from restante.identity import api_keys
from restante.identity.callers import ApiKeyCaller, Caller, ClientCaller, DeviceCaller, Person, Role
from restante.identity.clients import client_tokens
from restante.identity.devices.device_tokens import DeviceTokens
from restante.identity.grants import Area, Grants, checked_grants, parse_grant
from restante.identity.master_key import MasterKey
from restante.identity.people import sessions, users
from restante.identity.signing_keys import SigningKeys
from restante.web.access import (
    IN_PERSON,
    JOBS,
    ROLE_NEEDED,
    SCOPES_NEEDED,
    SESSION_COOKIE,
    TEAMS,
    AccessControl,
    SessionCookie,
    bearer_token,
)
from restante.web.routes import Access
from tests.conftest import ManualClock
from tests.defaults import new_device_tokens
from tests.identity.clients.test_client_tokens import add_client
from tests.identity.people_and_devices import SESSION_SECONDS, add_device

HOST = "restante.test"
ROLES = list(Role)
# Routes that no API key without a user opens.
NOT_FOR_KEYS = (*IN_PERSON, Access.manage_people)
FOR_PEOPLE = (Access.own_read, *NOT_FOR_KEYS)


def request(
    *headers: tuple[str, str], method: str = "GET", cookie: str | None = None, user_id: str | None = None
) -> Request:
    sent = [("host", HOST), *headers]
    if cookie is not None:
        sent.append(("cookie", f"{SESSION_COOKIE}={cookie}"))
    scope = {
        "type": "http",
        "scheme": "http",
        "method": method,
        "headers": [(name.encode(), value.encode("latin-1")) for name, value in sent],
        "path_params": {} if user_id is None else {"user_id": user_id},
    }
    return Request(scope)


def bearer_request(token: str, user_id: str | None = None) -> Request:
    return request(("authorization", f"Bearer {token}"), user_id=user_id)


class AccessFixture:
    """Access control with a person and an API key of every role, and a device."""

    def __init__(self, database: Database, tokens: DeviceTokens) -> None:
        self.database = database
        self.tokens = tokens
        self.access_control = AccessControl(database, tokens)
        self.users: dict[Role, int] = {}
        self.cookies: dict[Role, str] = {}
        self.keys: dict[Role, str] = {}
        for role in ROLES:
            user_id = database.write_now(users.add, f"{role.name}@example.com", "x", role)
            self.users[role] = user_id
            self.cookies[role] = database.write_now(sessions.start, user_id, SESSION_SECONDS)
            self.keys[role] = database.write_now(api_keys.create, role.name, role)[1]
        self.owner = self.users[Role.viewer]
        self.device_id = add_device(database, self.owner)
        self.device_token = tokens.mint(self.owner, self.device_id)

    async def admits(self, request: Request, access: Access) -> Caller | int | None:
        """The caller, or the status of the error."""
        try:
            return (await self.access_control.admit(request, access)).caller
        except (NotAuthenticated, NotAllowed) as error:
            return error.status


@pytest.fixture
async def fixture(database: Database, clock: ManualClock) -> AccessFixture:
    keys = SigningKeys(database, MasterKey(bytes(32)))
    tokens = new_device_tokens(database, keys, clock=lambda: clock.now_ms / 1000)
    await tokens.start()
    return AccessFixture(database, tokens)


async def test_open_route_needs_no_credentials(fixture: AccessFixture) -> None:
    assert await fixture.admits(request(), Access.open) is None
    assert await fixture.admits(bearer_request("nonsense"), Access.open) is None


async def test_missing_or_invalid_credentials_are_refused(fixture: AccessFixture) -> None:
    for access in Access:
        if access is not Access.open:
            assert await fixture.admits(request(), access) == 401
            assert await fixture.admits(bearer_request("nonsense"), access) == 401
            assert await fixture.admits(request(cookie="nonsense"), access) == 401


async def test_device_token_opens_only_device_routes(fixture: AccessFixture) -> None:
    caller = await fixture.admits(bearer_request(fixture.device_token), Access.device)
    assert isinstance(caller, DeviceCaller)
    assert (caller.device_id, caller.user_id) == (fixture.device_id, fixture.owner)
    for access in Access:
        if access not in (Access.open, Access.device):
            assert await fixture.admits(bearer_request(fixture.device_token), access) == 401


# Repeated here on purpose: the routes that a token of each scope opens.
ACCESS_OF_SCOPES = {
    "eventpolling": {Access.client, Access.subscriber},
    "ssf.read": {Access.ssf_read},
    "ssf.manage": {Access.ssf_read, Access.ssf_manage},
    "eventpolling ssf.read": {Access.client, Access.subscriber, Access.ssf_read},
    "accounts": {Access.subscriber},
    "payments fundsconfirmations": {Access.subscriber},
    "openid": set(),
}


@pytest.mark.parametrize("scope", ACCESS_OF_SCOPES)
async def test_client_token_opens_routes_of_its_scopes(fixture: AccessFixture, scope: str) -> None:
    client = fixture.database.write_now(add_client)
    token = fixture.database.write_now(client_tokens.issue, client, scope, None, 60)
    for access in set(Access) - {Access.open}:
        admitted = await fixture.admits(bearer_request(token), access)
        if access in ACCESS_OF_SCOPES[scope]:
            assert isinstance(admitted, ClientCaller)
            assert admitted.id == client
        else:
            assert admitted == (403 if access in SCOPES_NEEDED else 401)


async def test_people_and_api_keys_are_refused_on_machine_routes(fixture: AccessFixture) -> None:
    for access in (Access.device, Access.collector, Access.older_collector, *SCOPES_NEEDED):
        assert await fixture.admits(request(cookie=fixture.cookies[Role.admin]), access) == 401
        assert await fixture.admits(bearer_request(fixture.keys[Role.admin]), access) == 401


async def test_device_token_of_another_users_device_is_refused(fixture: AccessFixture) -> None:
    stranger = fixture.users[Role.operator]
    assert await fixture.admits(bearer_request(fixture.tokens.mint(stranger, fixture.device_id)), Access.device) == 403
    assert await fixture.admits(bearer_request(fixture.tokens.mint(fixture.owner, 999)), Access.device) == 403


@pytest.mark.parametrize("access", [access for access in ROLE_NEEDED if access not in FOR_PEOPLE])
async def test_route_needs_its_role(fixture: AccessFixture, access: Access) -> None:
    needed = ROLE_NEEDED[access]
    for role in ROLES:
        by_key = await fixture.admits(bearer_request(fixture.keys[role]), access)
        assert by_key == 403 if role < needed else isinstance(by_key, ApiKeyCaller) and by_key.role is role
        by_cookie = await fixture.admits(request(cookie=fixture.cookies[role]), access)
        enough = Role.admin if access in (Access.fleet_read, Access.fleet_operate) else needed
        assert by_cookie == 403 if role < enough else isinstance(by_cookie, Person) and by_cookie.role is role


def test_every_access_is_covered_by_a_rule() -> None:
    by_kind = {Access.open, Access.device, Access.collector, Access.older_collector, Access.person}
    assert by_kind | set(SCOPES_NEEDED) | set(ROLE_NEEDED) == set(Access)


async def test_route_for_people_refuses_api_keys(fixture: AccessFixture) -> None:
    person = await fixture.admits(request(cookie=fixture.cookies[Role.viewer]), Access.person)
    assert isinstance(person, Person)
    assert person.user_id == fixture.owner
    assert await fixture.admits(bearer_request(fixture.keys[Role.admin]), Access.person) == 403


async def test_person_is_limited_to_own_user_id_and_api_key_is_not(fixture: AccessFixture) -> None:
    own, other = str(fixture.owner), str(fixture.users[Role.admin])
    cookie = fixture.cookies[Role.viewer]
    assert isinstance(await fixture.admits(request(cookie=cookie, user_id=own), Access.read), Person)
    for user_id in (other, "0" + own, "x", ""):
        assert await fixture.admits(request(cookie=cookie, user_id=user_id), Access.read) == 403
    assert await fixture.admits(request(cookie=cookie, user_id=other), Access.person) == 403
    admin = fixture.cookies[Role.admin]
    assert await fixture.admits(request(cookie=admin, user_id=own), Access.administer) == 403
    assert isinstance(
        await fixture.admits(bearer_request(fixture.keys[Role.viewer], user_id=other), Access.read), ApiKeyCaller
    )


async def test_only_people_approve(fixture: AccessFixture) -> None:
    for role in ROLES:
        by_person = await fixture.admits(request(cookie=fixture.cookies[role]), Access.approve_in_person)
        assert by_person == 403 if role < Role.approver else isinstance(by_person, Person)
        assert await fixture.admits(bearer_request(fixture.keys[role]), Access.approve_in_person) == 403


@pytest.mark.parametrize("access", [each for each in ROLE_NEEDED if each not in (*NOT_FOR_KEYS, *TEAMS, *JOBS)])
async def test_key_of_a_user_opens_only_the_users_own_resources(fixture: AccessFixture, access: Access) -> None:
    for role in ROLES:
        user_id = fixture.users[role]
        _, key = fixture.database.write_now(api_keys.create, "own", Role.admin, user_id)
        admitted = await fixture.admits(bearer_request(key, user_id=str(user_id)), access)
        if role < ROLE_NEEDED[access]:
            assert admitted == 403
        else:
            assert isinstance(admitted, ApiKeyCaller)
            assert (admitted.role, admitted.user_id) == (role, user_id)
        other = next(other for other in fixture.users.values() if other != user_id)
        for path in (str(other), f"0{user_id}", "x", ""):
            assert await fixture.admits(bearer_request(key, user_id=path), access) == 403
        assert access is Access.own_read or await fixture.admits(bearer_request(key), access) == 403


async def test_lists_of_teams_show_the_users_that_the_routes_of_one_user_open(fixture: AccessFixture) -> None:
    owner, other = fixture.users[Role.operator], fixture.users[Role.admin]

    async def users_of(sent: Request) -> set[int | str] | None:
        allowed = (await fixture.access_control.admit(sent, Access.team_read, Area.updates)).allowed
        return None if allowed.ids is None else set(allowed.ids)

    def key(*grants: str, user_id: int | None = None) -> Request:
        given = checked_grants(parse_grant(grant) for grant in grants)
        return bearer_request(fixture.database.write_now(api_keys.create, "k", given, user_id)[1])

    assert await users_of(request(cookie=fixture.cookies[Role.operator])) == {owner}
    assert await users_of(request(cookie=fixture.cookies[Role.admin])) is None
    assert await users_of(key("viewer")) is None
    assert await users_of(key("viewer@updates")) is None
    assert await users_of(key(f"viewer@updates:{owner}", f"viewer@updates:{other}")) == {owner, other}
    assert await users_of(key("admin", user_id=owner)) == {owner}
    assert await fixture.admits(key("viewer@commands"), Access.team_read) == 403


async def test_own_resources_need_a_user(fixture: AccessFixture) -> None:
    assert await fixture.admits(bearer_request(fixture.keys[Role.admin]), Access.own_read) == 403
    person = await fixture.admits(request(cookie=fixture.cookies[Role.viewer]), Access.own_read)
    assert isinstance(person, Person)
    _, key = fixture.database.write_now(api_keys.create, "own", Role.viewer, fixture.owner)
    caller = await fixture.admits(bearer_request(key), Access.own_read)
    assert isinstance(caller, ApiKeyCaller)
    assert caller.user_id == fixture.owner


async def test_key_of_a_user_is_refused_on_routes_for_people_and_machines(fixture: AccessFixture) -> None:
    _, key = fixture.database.write_now(api_keys.create, "own", Role.admin, fixture.users[Role.admin])
    assert await fixture.admits(bearer_request(key), Access.person) == 403
    for access in (Access.device, Access.collector, *SCOPES_NEEDED):
        assert await fixture.admits(bearer_request(key), access) == 401


async def test_authorization_header_takes_precedence_over_cookie(fixture: AccessFixture) -> None:
    both = request(("authorization", "Bearer nonsense"), cookie=fixture.cookies[Role.admin])
    assert await fixture.admits(both, Access.read) == 401


async def test_revoked_key_and_ended_session_are_refused(fixture: AccessFixture, clock: ManualClock) -> None:
    key_id = fixture.database.read_now(api_keys.list_all)[0].id
    key = fixture.keys[Role(1)]
    assert isinstance(await fixture.admits(bearer_request(key), Access.read), ApiKeyCaller)
    fixture.database.write_now(api_keys.revoke, key_id)
    assert await fixture.admits(bearer_request(key), Access.read) == 401
    fixture.database.write_now(sessions.end, fixture.cookies[Role.viewer])
    assert await fixture.admits(request(cookie=fixture.cookies[Role.viewer]), Access.read) == 401
    clock.advance(SESSION_SECONDS)
    assert await fixture.admits(request(cookie=fixture.cookies[Role.admin]), Access.read) == 401


@pytest.mark.parametrize("origin", [f"http://{HOST}", f"http://{HOST}:80", f"HTTP://{HOST.upper()}"])
async def test_cookie_is_accepted_from_own_origin(fixture: AccessFixture, origin: str) -> None:
    ours = request(("origin", origin), method="POST", cookie=fixture.cookies[Role.admin])
    assert isinstance(await fixture.admits(ours, Access.operate), Person)


@pytest.mark.parametrize(
    "origin",
    [
        "http://evil.example", "null", "", HOST, f"http://{HOST}.evil.example", f"http://evil.example/{HOST}",
        f"http://{HOST}@evil.example", f"http://{HOST}:8443", f"https://{HOST}", "http://[::1", "http://", "\xff",
    ],
)  # fmt: skip
async def test_cookie_from_another_origin_is_refused_for_changes(fixture: AccessFixture, origin: str) -> None:
    for method in ("POST", "PUT", "PATCH", "DELETE"):
        foreign = request(("origin", origin), method=method, cookie=fixture.cookies[Role.admin])
        assert await fixture.admits(foreign, Access.operate) == 403
        assert await fixture.admits(foreign, Access.person) == 403
    # The page could not read the response of a GET, and a browser does not add an API key by itself.
    looking = request(("origin", origin), cookie=fixture.cookies[Role.admin])
    assert isinstance(await fixture.admits(looking, Access.read), Person)
    by_key = request(("origin", origin), ("authorization", f"Bearer {fixture.keys[Role.admin]}"), method="POST")
    assert isinstance(await fixture.admits(by_key, Access.operate), ApiKeyCaller)


async def test_cookie_without_origin_header_is_accepted(fixture: AccessFixture) -> None:
    plain = request(method="POST", cookie=fixture.cookies[Role.admin])
    assert isinstance(await fixture.admits(plain, Access.operate), Person)


async def test_person_of_returns_signed_in_person(fixture: AccessFixture) -> None:
    person = await fixture.access_control.person_of(request(cookie=fixture.cookies[Role.viewer]))
    assert person == Person(fixture.owner, "viewer@example.com", Grants.everywhere(Role.viewer))
    assert await fixture.access_control.person_of(request()) is None
    assert await fixture.access_control.person_of(request(cookie="nonsense")) is None
    assert await fixture.access_control.person_of(request(cookie="")) is None


@pytest.mark.parametrize("value", ["Bearer abc", "bearer abc", "BEARER  abc ", "Bearer\tabc"])
def test_bearer_token_is_parsed(value: str) -> None:
    if "\t" in value:
        with pytest.raises(NotAuthenticated):
            bearer_token(request(("authorization", value)))
    else:
        assert bearer_token(request(("authorization", value))) == "abc"


@pytest.mark.parametrize("value", ["", "abc", "Bearer", "Bearer ", "Basic abc", "Token abc", "Bearerabc"])
def test_other_authorization_header_is_refused(value: str) -> None:
    with pytest.raises(NotAuthenticated):
        bearer_token(request(("authorization", value)))


def test_missing_or_repeated_authorization_header_is_refused() -> None:
    with pytest.raises(NotAuthenticated):
        bearer_token(request(("authorization", "Bearer a"), ("authorization", "Bearer a")))
    with pytest.raises(NotAuthenticated):
        bearer_token(request())


def request_by(scheme: str) -> Request:
    return Request({"type": "http", "scheme": scheme, "headers": []})


def test_cookie_is_http_only_and_same_site() -> None:
    name, value = SessionCookie(None).issue(request_by("http"), "token", 60)
    assert name == b"set-cookie"
    assert value == b"restante_session=token; Path=/; Max-Age=60; HttpOnly; SameSite=Lax"


@pytest.mark.parametrize(
    ("public_url", "scheme", "is_secure"),
    [
        (None, "http", False),
        (None, "https", True),
        ("http://restante.example", "http", False),
        ("http://restante.example", "https", True),
        ("https://restante.example", "http", True),
        ("HTTPS://restante.example", "http", True),
        ("https://restante.example", "https", True),
    ],
)
def test_cookie_is_secure_if_people_use_https(public_url: str | None, scheme: str, is_secure: bool) -> None:
    cookie = SessionCookie(public_url)
    for _, value in (cookie.issue(request_by(scheme), "token", 60), cookie.clear(request_by(scheme))):
        assert value.endswith(b"; Secure") is is_secure
        assert value.startswith(b"__Host-restante_session=") is is_secure


def test_cleared_cookie_is_empty_and_expired() -> None:
    assert SessionCookie(None).clear(request_by("http"))[1].startswith(b"restante_session=; Path=/; Max-Age=0;")
