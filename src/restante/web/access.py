"""Access control: identifies the caller of a request and decides whether the route is open to it.

This is the only place that decides which routes a caller may use, and, with `identity.grants`, which resources of the
route's area. A device sends a JWT, a collector or a client its token, a program an API key, all as
`Authorization: Bearer …`; a person has a session cookie, or at a command line the token of a session. On the Unix
socket of the data folder, a request without credentials comes from the local administrator. On the routes of the older
collector API, and only there, a collector may send its token as `X-Collector-Key`.

Invariant: no credential passes for one of another kind. Tokens of clients and collectors and API keys have prefixes;
every other value in that header is read as a device token.
"""

from collections.abc import Callable, Mapping
from typing import NamedTuple
from urllib.parse import urlsplit

from starlette.requests import Request

from restante.core.decoding import DIGITS
from restante.core.errors import InsufficientScope, InvalidToken, NotAllowed, NotAuthenticated
from restante.database.database import Database
from restante.identity import api_keys
from restante.identity.callers import ApiKeyCaller, Caller, ClientCaller, LocalAdministrator, Operator, Person
from restante.identity.clients import scopes
from restante.identity.clients.client_tokens import ClientTokens
from restante.identity.clients.collector_tokens import CollectorTokens
from restante.identity.clients.refused_token import ClientRefusal, refusal_of
from restante.identity.devices.device_tokens import DeviceTokens
from restante.identity.grants import ALL_IDS, AllowedIds, Area, Role
from restante.identity.people import sessions
from restante.web.client_cert import ClientCertificates
from restante.web.origin import DIRECT, Senders
from restante.web.routes import Access

SESSION_COOKIE = "restante_session"
# Browsers accept this name over https only, for the whole host, and from that host itself: a page of another host under
# the same domain, or a plain http page of the same host, cannot set it.
SECURE_PREFIX = "__Host-"
SECURE_SESSION_COOKIE = SECURE_PREFIX + SESSION_COOKIE
# The name of the operating-system user at the Unix socket, in the ASGI scope. The server sets it, no header can.
LOCAL_USER = "restante.local_user"
# A proxy in front of the Unix socket would make every stranger the local administrator.
_FORWARDING_HEADERS = ("forwarded", "x-forwarded-for", "x-real-ip", "via")
_DEFAULT_PORTS = {"http": 80, "https": 443}
# A client's access token needs one of these scopes, unless the settings name others.
SCOPES_NEEDED: dict[Access, tuple[str, ...]] = {
    Access.client: scopes.POLLING_SCOPES,
    Access.subscriber: scopes.SUBSCRIPTION_SCOPES,
    Access.ssf_read: scopes.SSF_READ_SCOPES,
    Access.ssf_manage: scopes.SSF_MANAGE_SCOPES,
}
ID_DIGITS_MAX = 19
SAFE_METHODS = ("GET", "HEAD", "OPTIONS")

ROLE_NEEDED = {
    Access.read: Role.viewer,
    Access.own_read: Role.viewer,
    Access.operate: Role.operator,
    Access.approve: Role.approver,
    Access.approve_in_person: Role.approver,
    Access.administer: Role.admin,
    Access.manage_access: Role.admin,
    Access.manage_people: Role.admin,
    Access.team_read: Role.viewer,
    Access.team_operate: Role.operator,
    Access.fleet_read: Role.viewer,
    Access.fleet_operate: Role.operator,
    Access.jobs_read: Role.viewer,
    Access.jobs_operate: Role.operator,
    Access.jobs_approve: Role.approver,
}
# Routes for resources of any area: the handler decides which of them the caller's grants open.
JOBS = (Access.jobs_read, Access.jobs_operate, Access.jobs_approve)
ANY_AREA = (Access.manage_access, Access.manage_people, *JOBS)
IN_PERSON = (Access.approve_in_person, Access.jobs_approve)
# Routes about every user's devices: a person must be an admin, whatever role an API key needs.
FLEET_WIDE = (Access.fleet_read, Access.fleet_operate)
# Routes about the devices of several users: a caller sees those that the routes of one user would open.
TEAMS = (Access.team_read, Access.team_operate)


class Admission(NamedTuple):
    """A caller that may use the route, and the resources of the route's area that are open to it."""

    caller: Caller | None
    allowed: AllowedIds = ALL_IDS


_ADMITTED_TO_ALL = Admission(None)


class SessionCookie:
    """Scripts cannot read it, and browsers do not send it when another site posts to this server.

    It is Secure if people use https. That is known from the request, or from the configured public URL: behind a proxy
    that terminates TLS every request looks like plain http.
    """

    def __init__(self, public_url: str | None, name: str = SESSION_COOKIE) -> None:
        self._is_public_https = public_url is not None and urlsplit(public_url).scheme == "https"
        self._plain_name = name

    def read(self, request: Request) -> str | None:
        return request.cookies.get(self._name(request))

    def issue(self, request: Request, token: str, lifetime_seconds: int) -> tuple[bytes, bytes]:
        return self._header(request, token, lifetime_seconds)

    def clear(self, request: Request) -> tuple[bytes, bytes]:
        return self._header(request, "", 0)

    def _is_https(self, request: Request) -> bool:
        return self._is_public_https or request.scope["scheme"] == "https"

    def _name(self, request: Request) -> str:
        return SECURE_PREFIX + self._plain_name if self._is_https(request) else self._plain_name

    def _header(self, request: Request, value: str, lifetime_seconds: int) -> tuple[bytes, bytes]:
        secure = "; Secure" if self._is_https(request) else ""
        attributes = f"Path=/; Max-Age={lifetime_seconds}; HttpOnly; SameSite=Lax{secure}"
        return b"set-cookie", f"{self._name(request)}={value}; {attributes}".encode()


class AccessControl:
    def __init__(
        self,
        database: Database,
        device_tokens: DeviceTokens,
        collector_tokens: CollectorTokens | None = None,
        client_tokens: ClientTokens | None = None,
        client_certificates: ClientCertificates | None = None,
        scopes_needed: Mapping[Access, tuple[str, ...]] = SCOPES_NEEDED,
        public_url: str | None = None,
        senders: Senders = DIRECT,
    ) -> None:
        self.senders = senders
        self.cookie = SessionCookie(public_url)
        self._public_origin = None if public_url is None else _origin(public_url)
        self._database = database
        self._device_tokens = device_tokens
        self._collector_tokens = collector_tokens or CollectorTokens(database)
        self._client_tokens = client_tokens or ClientTokens(database)
        self._client_certificates = client_certificates or ClientCertificates()
        self._report_refusal: Callable[[ClientRefusal], None] = lambda _: None
        self._scopes_needed = {**SCOPES_NEEDED, **scopes_needed}

    def report_refusals_to(self, report: Callable[[ClientRefusal], None]) -> None:
        """Call the function with every request of an event client whose token is refused."""
        self._report_refusal = report

    async def admit(self, request: Request, access: Access, area: Area | None = None) -> Admission:
        """Return the caller and the allowed resources, or raise NotAuthenticated or NotAllowed.

        An open route has no caller. `area`: where a person or an API key needs the role.
        """
        if access is Access.open:
            return _ADMITTED_TO_ALL
        if access is Access.device:
            return Admission(await self._device_tokens.verify(bearer_token(request)))
        if access is Access.collector:
            return Admission(await self._collector_tokens.verify(bearer_token(request)))
        if access is Access.older_collector:
            return Admission(await self._collector_tokens.verify(collector_key(request)))
        if access in self._scopes_needed:
            return Admission(await self._client(request, self._scopes_needed[access]))
        caller = await self._person_or_key(request)
        if access is Access.person:
            if not isinstance(caller, Person):
                raise NotAllowed("this is for signed-in people, not for API keys")
            _check_owner(request, access, caller, Role.viewer, ALL_IDS)
            return Admission(caller)
        needed = role_needed(access, caller)
        allowed = ALL_IDS if access in ANY_AREA else caller.grants.allowed(area, needed)
        if allowed is None or caller.role < needed:
            raise _role_missing(caller, area, needed)
        if access in IN_PERSON and not isinstance(caller, Person):
            what = "an API key" if isinstance(caller, ApiKeyCaller) else "the local administrator"
            raise NotAllowed(f"approval needs a signed-in person: {what} cannot approve")
        if access is Access.manage_people and isinstance(caller, ApiKeyCaller):
            # A person that a key made could approve what the key sends.
            raise NotAllowed("this needs a signed-in administrator: an API key cannot add people or set passwords")
        if access in TEAMS:
            return Admission(caller, _users_open_to(caller, allowed))
        if access not in JOBS:
            _check_owner(request, access, caller, needed, allowed)
        return Admission(caller, allowed)

    async def person_of(self, request: Request) -> Person | None:
        """The signed-in person, or None: for pages that show a sign-in form instead of an error."""
        token = self.cookie.read(request)
        if not token or token.startswith(sessions.COMMAND_LINE_PREFIX):
            return None
        return await self._database.read(sessions.find, token)

    async def operator_without_cookie(self, request: Request) -> Operator | None:
        """The API key, command line or local user of a request; None if it has none of them, or a wrong one."""
        if "authorization" not in request.headers and _local_user(request) is None:
            return None
        try:
            return await self._person_or_key(request)
        except NotAuthenticated:
            return None

    def refuse_foreign_origin(self, request: Request) -> None:
        """Refuse requests from pages of another origin: the browser adds the cookie to their requests too.

        The scheme counts: an attacker who controls the network can write plain http pages of this very host.
        """
        sent = request.headers.get("origin")
        own = self._public_origin or _origin(f"{request.scope['scheme']}://{request.headers.get('host', '')}")
        if sent is not None and (own is None or _origin(sent) != own):
            raise NotAllowed("the request comes from a page of another origin")

    async def operator_of(self, request: Request) -> Person:
        """The signed-in person with the role operator for their own devices: for open routes that accept a session."""
        person = await self.person_of(request)
        if person is None:
            raise NotAuthenticated("sign in first")
        self.refuse_foreign_origin(request)
        allowed = person.grants.allowed(Area.updates, Role.operator)
        if allowed is None or person.user_id not in allowed:
            raise _role_missing(person, Area.updates, Role.operator)
        return person

    async def _client(self, request: Request, needed: tuple[str, ...]) -> ClientCaller:
        certificate = self._client_certificates.of_request(request)
        thumbprint = certificate.thumbprint if certificate else None
        address = self.senders.address_of(request)
        try:
            caller = await self._client_tokens.verify(bearer_token(request), thumbprint)
        except InvalidToken as error:
            self._report_refusal(refusal_of(error, address))
            raise
        if caller.scopes.isdisjoint(needed):
            message = f"this needs an access token of scope {' or '.join(needed)}"
            self._report_refusal(ClientRefusal(caller.client_id, "token_scope", message, address))
            raise InsufficientScope(message, needed)
        return caller

    async def _person_or_key(self, request: Request) -> Operator:
        if "authorization" in request.headers:
            key = bearer_token(request)
            if key.startswith(sessions.COMMAND_LINE_PREFIX):
                return await self._command_line(key)
            holder = await self._database.read(api_keys.find, key)
            if holder is None:
                raise InvalidToken("the API key is not known, has expired or was revoked")
            return holder
        local_user = _local_user(request)
        if local_user is not None:
            return LocalAdministrator(local_user)
        person = await self.person_of(request)
        if person is None:
            raise NotAuthenticated("sign in, or send an API key as Authorization: Bearer")
        if request.method not in SAFE_METHODS:
            self.refuse_foreign_origin(request)
        return person

    async def _command_line(self, token: str) -> Person:
        person = await self._database.read(sessions.find, token)
        if person is None:
            raise InvalidToken("the sign-in of this command line has ended: sign in again with `restante login`")
        return person


def _local_user(request: Request) -> str | None:
    """The user at the Unix socket; None if the request came another way, or through a proxy."""
    if any(name in request.headers for name in _FORWARDING_HEADERS):
        return None
    user: str | None = request.scope.get(LOCAL_USER)
    return user


def role_needed(access: Access, caller: Operator) -> Role:
    """The role that the caller needs on routes with this access."""
    is_fleet_wide = access in FLEET_WIDE and isinstance(caller, Person)
    return Role.admin if is_fleet_wide else ROLE_NEEDED[access]


def _role_missing(caller: Operator, area: Area | None, needed: Role) -> NotAllowed:
    """The refusal of a caller without the role in the area; on a route of no area, for everything."""
    role = caller.grants.role_in(area)
    where = "everything" if area is None else area.value
    if role is None:
        message = f"this needs the role {needed.name} for {where}; yours is {', '.join(caller.grants.as_texts())}"
    else:
        message = f"this needs the role {needed.name}; yours is {role.name}"
    return InsufficientScope(message, [needed.name]) if isinstance(caller, ApiKeyCaller) else NotAllowed(message)


def _check_owner(request: Request, access: Access, caller: Operator, needed: Role, allowed: AllowedIds) -> None:
    """Check that the request is about a user whose resources are open to the caller.

    A person reaches their own, and those of users whom a grant names; the key of a user that user's own; a key without
    a user those of every user in its scope.
    """
    user_id, own_id = request.path_params.get("user_id"), caller.user_id
    if access is Access.own_read:
        if own_id is None:
            raise NotAllowed("this API key belongs to no user, so it has no resources of its own")
        user_id = str(own_id) if user_id is None else user_id
    if user_id is None:
        if own_id is not None and isinstance(caller, ApiKeyCaller):
            raise NotAllowed("this API key opens only its user's own resources")
        return
    is_named = isinstance(caller, Person) and caller.grants.names(Area.updates, needed, _number(user_id))
    is_open = own_id is None or user_id == str(own_id) or is_named
    if not is_open or not (allowed.are_all or _number(user_id) in allowed):
        raise NotAllowed("these are another user's" if user_id != str(own_id) else "your grants do not include these")


def _users_open_to(caller: Operator, allowed: AllowedIds) -> AllowedIds:
    """The users whose devices a list shows to the caller: those that `_check_owner` opens on the routes of one user.

    A person with the role admin for device updates sees all, as on the other routes about every user's devices.
    """
    if caller.user_id is None:
        return allowed
    if isinstance(caller, Person):
        of_admin = caller.grants.allowed(Area.updates, Role.admin)
        if of_admin is not None and of_admin.are_all:
            return ALL_IDS
    named = allowed.ids or frozenset() if isinstance(caller, Person) else frozenset()
    own = {caller.user_id} if caller.user_id in allowed else set()
    if not named and not own:
        raise NotAllowed("your grants do not include any user's devices")
    return AllowedIds(frozenset(own | named))


def _number(user_id: str) -> int:
    """The id in a path; 0, which no user has, if it is none."""
    return int(user_id) if DIGITS.fullmatch(user_id) and len(user_id) <= ID_DIGITS_MAX else 0


def bearer_token(request: Request) -> str:
    values = request.headers.getlist("authorization")
    if len(values) != 1:
        raise NotAuthenticated("one Authorization header is required")
    scheme, _, token = values[0].partition(" ")
    if scheme.lower() != "bearer" or not token.strip():
        raise NotAuthenticated("the Authorization header must be: Bearer <token>")
    return token.strip()


def collector_key(request: Request) -> str:
    """The token of an older collector: `X-Collector-Key`, or a bearer token. Some send both, which must be equal."""
    values = request.headers.getlist("x-collector-key")
    if not values:
        return bearer_token(request)
    if len(values) != 1 or not values[0].strip():
        raise NotAuthenticated("one X-Collector-Key header with the collector's token is required")
    key = values[0].strip()
    if "authorization" in request.headers and bearer_token(request) != key:
        raise NotAuthenticated("X-Collector-Key and Authorization have different tokens")
    return key


def _origin(url: str) -> tuple[str, str, int] | None:
    """Scheme, host and port of a URL, as browsers compare them; None if it is no such URL."""
    try:
        parts = urlsplit(url)
        port = parts.port or _DEFAULT_PORTS[parts.scheme]
    except (ValueError, KeyError):
        return None
    return (parts.scheme, parts.hostname, port) if parts.hostname else None
