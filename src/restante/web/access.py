"""The gate: finds out who is calling, and lets them through or not. The only place where a route's access is decided.

A device shows a JWT, a collector or a client its token, a program an API key, all as `Authorization: Bearer …`; a
person has a session cookie. None can be taken for another: clients' and collectors' tokens and API keys are known by
their prefixes, everything else in that header is a device token.
"""

from starlette.requests import Request

from restante.core.errors import NotAllowed, NotAuthenticated
from restante.database.database import Database
from restante.identity import api_keys, sessions
from restante.identity.callers import Caller, ClientCaller, KeyHolder, Person, Role
from restante.identity.client_tokens import ClientTokens
from restante.identity.collector_tokens import CollectorTokens
from restante.identity.device_tokens import DeviceTokens
from restante.web.peer import Peers
from restante.web.routes import Access

SESSION_COOKIE = "restante_session"
# Of which scopes a client's access token must have one.
SCOPES_NEEDED = {
    Access.client: ("eventpolling",),
    Access.signals_read: ("ssf.read", "ssf.manage"),
    Access.signals_manage: ("ssf.manage",),
}
SAFE_METHODS = ("GET", "HEAD", "OPTIONS")

ROLE_NEEDED = {
    Access.read: Role.viewer,
    Access.operate: Role.operator,
    Access.approve: Role.approver,
    Access.administer: Role.admin,
    Access.oversee: Role.viewer,
    Access.steer: Role.operator,
}
# Routes that concern every user's devices: a person must be an admin there, whatever an API key needs.
FLEET_WIDE = (Access.oversee, Access.steer)


class Gate:
    def __init__(
        self,
        database: Database,
        device_tokens: DeviceTokens,
        collector_tokens: CollectorTokens | None = None,
        client_tokens: ClientTokens | None = None,
        peers: Peers | None = None,
    ) -> None:
        self._database = database
        self._device_tokens = device_tokens
        self._collector_tokens = collector_tokens or CollectorTokens(database)
        self._client_tokens = client_tokens or ClientTokens(database)
        self._peers = peers or Peers()

    async def admit(self, request: Request, access: Access) -> Caller | None:
        """The caller, if the route is for them; NotAuthenticated or NotAllowed if not."""
        if access is Access.open:
            return None
        if access is Access.device:
            return await self._device_tokens.verify(bearer_token(request))
        if access is Access.collector:
            return await self._collector_tokens.verify(bearer_token(request))
        if access in SCOPES_NEEDED:
            return await self._client(request, SCOPES_NEEDED[access])
        caller = await self._person_or_key(request)
        if access is Access.person:
            if not isinstance(caller, Person):
                raise NotAllowed("this is for signed-in people, not for API keys")
        else:
            _check_role(access, caller)
        self._check_owner(request, caller)
        return caller

    async def person_of(self, request: Request) -> Person | None:
        """The person signed in, if any: for pages that greet a stranger with a form instead of an error."""
        token = request.cookies.get(SESSION_COOKIE)
        return await self._database.read(sessions.find, token) if token else None

    async def _client(self, request: Request, scopes: tuple[str, ...]) -> ClientCaller:
        certificate = self._peers.of_request(request)
        thumbprint = certificate.thumbprint if certificate else None
        caller = await self._client_tokens.verify(bearer_token(request), thumbprint)
        if caller.scopes.isdisjoint(scopes):
            raise NotAllowed(f"this needs an access token of scope {' or '.join(scopes)}")
        return caller

    async def _person_or_key(self, request: Request) -> Person | KeyHolder:
        if "authorization" in request.headers:
            key = bearer_token(request)
            holder = await self._database.read(api_keys.find, key)
            if holder is None:
                raise NotAuthenticated("the API key is not known or was revoked")
            return holder
        person = await self.person_of(request)
        if person is None:
            raise NotAuthenticated("sign in, or send an API key as Authorization: Bearer")
        if request.method not in SAFE_METHODS:
            refuse_foreign_origin(request)
        return person

    @staticmethod
    def _check_owner(request: Request, caller: Caller) -> None:
        user_id = request.path_params.get("user_id")
        if user_id is not None and isinstance(caller, Person) and user_id != str(caller.user_id):
            raise NotAllowed("these are another user's")


def _check_role(access: Access, caller: Person | KeyHolder) -> None:
    fleet_wide = access in FLEET_WIDE and isinstance(caller, Person)
    needed = Role.admin if fleet_wide else ROLE_NEEDED[access]
    if caller.role < needed:
        raise NotAllowed(f"this needs the role {needed.name}; yours is {caller.role.name}")


def bearer_token(request: Request) -> str:
    values = request.headers.getlist("authorization")
    if len(values) != 1:
        raise NotAuthenticated("one Authorization header is required")
    scheme, _, token = values[0].partition(" ")
    if scheme.lower() != "bearer" or not token.strip():
        raise NotAuthenticated("the Authorization header must be: Bearer <token>")
    return token.strip()


def refuse_foreign_origin(request: Request) -> None:
    """A cookie is sent by the browser whoever asks it to: a page of another origin must not act with it."""
    origin = request.headers.get("origin")
    if origin is not None and origin.partition("://")[2] != request.headers.get("host"):
        raise NotAllowed("the request comes from a page of another origin")
