"""The routes by which devices and people get their credentials: `/auth/device`, `/auth/refresh`, `/auth/general`.

Clients in the field send more fields than these (their names and versions): unknown fields are ignored.
"""

import math
import time
from collections.abc import Callable
from typing import Annotated, Literal

import msgspec
from starlette.requests import Request

from restante.core.address_group import address_group
from restante.core.errors import NotAllowed, NotAuthenticated, TooManyRequests
from restante.core.token_bucket import TokenBuckets
from restante.database.database import Database
from restante.identity.callers import ApiKeyCaller, LocalAdministrator, Operator, Person
from restante.identity.devices import device_codes, refresh_tokens
from restante.identity.devices.device_codes import DeviceCodeKey, DeviceCodeLimits, DeviceCodeStatus, ForeignDevice
from restante.identity.devices.device_tokens import INT64_MAX, DeviceTokens
from restante.identity.devices.refresh_key import RefreshKey
from restante.identity.devices.refresh_tokens import RefreshRefusal
from restante.identity.devices.registration_codes import CODE_SECONDS
from restante.identity.people import sessions
from restante.identity.people.sign_in import SignIn
from restante.updates.devices import device_sessions
from restante.updates.devices.approval import Approval
from restante.updates.devices.device_sessions import (
    RegistrationApproval,
    SessionApproval,
    TokenPair,
    make_token_pair,
)
from restante.updates.response_format import REFRESH_ROTATED_KEY, RESPONSE_FORMAT
from restante.web.access import AccessControl
from restante.web.origin import user_agent_of
from restante.web.request import ApiRequest
from restante.web.response import ApiResponse
from restante.web.routes import Access, Header, ResponseInfo, Route, RouteGroup

TAG = "authentication"
VERIFICATION_PATH = "/device"
AFTER_SIGN_IN = "/"
# A start stores a row and needs no credentials: enough for a building full of devices, not for a flood.
STARTS_BURST = 500
STARTS_PER_SECOND = 50.0

_STATUSES = sorted({*(status.value for status in DeviceCodeStatus), "approved", "denied"})
_COOKIE = Header("Set-Cookie", "The session cookie of the signed-in person; cleared by a sign-out.")

Scope = Annotated[str, msgspec.Meta(min_length=1, max_length=100)]
Secret = Annotated[str, msgspec.Meta(min_length=1, max_length=1024)]


class DeviceStartRequest(msgspec.Struct, frozen=True, tag_field="action", tag="device_start"):
    scopes: Annotated[list[Scope], msgspec.Meta(max_length=20)] | Annotated[str, msgspec.Meta(max_length=1000)] = (
        msgspec.field(default_factory=list)
    )
    interval: Annotated[int, msgspec.Meta(ge=1, le=300)] = 5
    expires_in: Annotated[int, msgspec.Meta(ge=30, le=3600)] = 900


class DeviceVerifyRequest(msgspec.Struct, frozen=True, tag_field="action", tag="device_verify"):
    user_code: Annotated[str, msgspec.Meta(min_length=1, max_length=32)]
    approve: bool


class DevicePollRequest(msgspec.Struct, frozen=True, tag_field="action", tag="device_poll"):
    device_code: Secret
    device_id: Annotated[int, msgspec.Meta(ge=1, le=INT64_MAX)] | None = None


class LoginRequest(msgspec.Struct, frozen=True, tag_field="action", tag="login"):
    email: Annotated[str, msgspec.Meta(min_length=1, max_length=254)]
    password: Secret


class LogoutRequest(msgspec.Struct, frozen=True, tag_field="action", tag="logout"):
    pass


class RefreshRequest(msgspec.Struct, frozen=True):
    refresh_token: Secret


class DeviceStartResponse(msgspec.Struct, frozen=True):
    device_code: str
    user_code: str
    verification_uri: str
    verification_uri_complete: str
    interval: int
    expires_in: int


class DeviceStatusResponse(msgspec.Struct, frozen=True):
    status: Annotated[str, msgspec.Meta(extra_json_schema={"enum": _STATUSES})]


class RegistrationReadyResponse(msgspec.Struct, frozen=True):
    status: Literal["ready"]
    user_id: int
    registration_code: str
    registration_code_ttl: int


class SessionReadyResponse(msgspec.Struct, frozen=True):
    status: Literal["ready"]
    user_id: int
    access_token: str
    refresh_token: str
    token_type: str
    expires_in: int


class RefreshResponse(msgspec.Struct, frozen=True):
    """The token pair twice: some clients in the field read the outer one, others `session`."""

    access_token: str
    refresh_token: str
    token_type: str
    expires_in: int
    session: TokenPair


class SignedInUser(msgspec.Struct, frozen=True):
    id: int
    email: str
    roles: list[str]


class LoginResponse(msgspec.Struct, frozen=True):
    """`to` is where clients in the field go after sign-in."""

    user: SignedInUser
    to: str = AFTER_SIGN_IN


class LogoutResponse(msgspec.Struct, frozen=True):
    status: Literal["signed_out"]


class OperatorView(msgspec.Struct, frozen=True):
    """The caller of a request with an API key or the token of a command line, or over the Unix socket."""

    kind: Literal["person", "key", "local"]
    name: str
    role: str
    grants: list[str]
    user_id: int | None


class AuthStatus(msgspec.Struct, frozen=True):
    """Whether the caller is signed in, and as whom. `caller`: only for requests without a session cookie."""

    authenticated: bool
    user: SignedInUser | None
    to: str = AFTER_SIGN_IN
    caller: OperatorView | msgspec.UnsetType = msgspec.UNSET


class AuthRoutes:
    def __init__(
        self,
        database: Database,
        access_control: AccessControl,
        tokens: DeviceTokens,
        sign_in: SignIn,
        approval: Approval,
        refresh_key: RefreshKey,
        code_key: DeviceCodeKey,
        *,
        code_limits: DeviceCodeLimits,
        base_url: str,
        refresh_token_seconds: int,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._database = database
        self._access_control = access_control
        self._tokens = tokens
        self._sign_in = sign_in
        self._approval = approval
        self._refresh_key = refresh_key
        self._code_key = code_key
        self._code_limits = code_limits
        self._base_url = base_url
        self._cookie = access_control.cookie
        self._refresh_token_seconds = refresh_token_seconds
        self._clock = clock
        self._starts = TokenBuckets(STARTS_PER_SECOND, STARTS_BURST)

    def routes(self) -> list[Route]:
        group = RouteGroup(TAG, RESPONSE_FORMAT)
        return [
            group.post(
                "/auth/device",
                self.device,
                Access.open,
                "Approve a device: it starts, a person verifies, it polls.",
                errors=(400, 401, 403, 404, 429),
                examples=({"action": "device_start", "scopes": ["device"], "interval": 5, "expires_in": 900},),
            ),
            group.post(
                "/auth/refresh",
                self.refresh,
                Access.open,
                "Exchange a refresh token for a new pair of tokens.",
                errors=(400, 401, 403),
            ),
            group.post(
                "/auth/general",
                self.general,
                Access.open,
                "Sign in with e-mail and password, or sign out.",
                errors=(400, 401, 403, 429),
                examples=({"action": "logout"},),
                responses=(ResponseInfo(200, LoginResponse | LogoutResponse, (_COOKIE,)),),
            ),
            group.get("/auth/status", self.status, Access.open, "Show whether the caller is signed in, and as whom."),
        ]

    async def device(
        self, request: ApiRequest, body: DeviceStartRequest | DeviceVerifyRequest | DevicePollRequest
    ) -> DeviceStartResponse | DeviceStatusResponse | RegistrationReadyResponse | SessionReadyResponse:
        match body:
            case DeviceStartRequest():
                return await self._start(request, body)
            case DeviceVerifyRequest():
                return await self._verify(request.http, body)
            case DevicePollRequest():
                return await self._poll(body)

    async def refresh(self, _request: ApiRequest, body: RefreshRequest) -> RefreshResponse:
        result = await self._database.write(
            refresh_tokens.exchange, self._refresh_key, body.refresh_token, self._refresh_token_seconds
        )
        if isinstance(result, RefreshRefusal):
            raise refresh_error(result)
        pair = make_token_pair(self._tokens, result.user_id, result.device_id, result.refresh_token, result.generation)
        return RefreshResponse(**msgspec.structs.asdict(pair), session=pair)

    async def general(self, request: ApiRequest, body: LoginRequest | LogoutRequest) -> ApiResponse:
        self._access_control.refuse_foreign_origin(request.http)
        if isinstance(body, LogoutRequest):
            return await self._log_out(request.http)
        signed_in = await self._sign_in.sign_in(body.email, body.password, request.address)
        response = RESPONSE_FORMAT.success(LoginResponse(_user(signed_in.person)))
        return response.with_headers(self._cookie.issue(request.http, signed_in.token, self._sign_in.session_seconds))

    async def status(self, request: ApiRequest) -> AuthStatus:
        """Without a session this is not an error: `authenticated` is false."""
        operator = await self._access_control.operator_without_cookie(request.http)
        if operator is not None:
            user = _user(operator) if isinstance(operator, Person) else None
            return AuthStatus(user is not None, user, caller=_operator_view(operator))
        person = await self._access_control.person_of(request.http)
        return AuthStatus(person is not None, None if person is None else _user(person))

    async def _start(self, request: ApiRequest, body: DeviceStartRequest) -> DeviceStartResponse:
        address = request.address
        wait = self._starts.acquire(hash(address_group(address)), self._clock())
        if wait:
            raise TooManyRequests("too many devices start at once", retry_after_seconds=math.ceil(wait))
        codes = await self._database.write(
            device_codes.start,
            self._code_key,
            self._code_limits,
            scopes=body.scopes.split() if isinstance(body.scopes, str) else body.scopes,
            interval_seconds=body.interval,
            expires_in=body.expires_in,
            address=address,
            user_agent=user_agent_of(request.http),
        )
        page = self._base_url + VERIFICATION_PATH
        return DeviceStartResponse(
            device_code=codes.device_code,
            user_code=codes.user_code,
            verification_uri=page,
            verification_uri_complete=f"{page}?user_code={codes.user_code}",
            interval=body.interval,
            expires_in=body.expires_in,
        )

    async def _verify(self, request: Request, body: DeviceVerifyRequest) -> DeviceStatusResponse:
        person = await self._access_control.person_of(request)
        if person is None:
            raise NotAuthenticated("sign in to approve a device")
        self._access_control.refuse_foreign_origin(request)
        await self._approval.decide(person, body.user_code, approve=body.approve)
        return DeviceStatusResponse("approved" if body.approve else "denied")

    async def _poll(
        self, body: DevicePollRequest
    ) -> DeviceStatusResponse | RegistrationReadyResponse | SessionReadyResponse:
        result = await self._database.write(
            device_sessions.poll,
            self._code_key,
            body.device_code,
            body.device_id,
            self._refresh_key,
            self._refresh_token_seconds,
        )
        match result:
            case ForeignDevice():
                raise NotAllowed("the device is not active or not the user's")
            case RegistrationApproval():
                return RegistrationReadyResponse("ready", result.user_id, result.registration_code, CODE_SECONDS)
            case SessionApproval():
                pair = make_token_pair(
                    self._tokens, result.user_id, result.device_id, result.refresh_token, result.generation
                )
                return SessionReadyResponse("ready", result.user_id, **msgspec.structs.asdict(pair))
            case DeviceCodeStatus():
                return DeviceStatusResponse(result.value)

    async def _log_out(self, request: Request) -> ApiResponse:
        token = self._cookie.read(request)
        if token:
            await self._database.write(sessions.end, token)
        return RESPONSE_FORMAT.success(LogoutResponse("signed_out")).with_headers(self._cookie.clear(request))


def _operator_view(operator: Operator) -> OperatorView:
    kind: Literal["person", "key", "local"]
    match operator:
        case Person(email=name):
            kind = "person"
        case ApiKeyCaller(name=name):
            kind = "key"
        case LocalAdministrator(name=name):
            kind = "local"
    return OperatorView(kind, name, operator.role.name, operator.grants.as_texts(), operator.user_id)


def _user(person: Person) -> SignedInUser:
    return SignedInUser(person.user_id, person.email, [person.role.name])


def refresh_error(refusal: RefreshRefusal) -> NotAuthenticated | NotAllowed:
    match refusal:
        case RefreshRefusal.device_inactive:
            return NotAllowed(refusal.value)
        case RefreshRefusal.rotated:
            return NotAuthenticated(refusal.value, key=REFRESH_ROTATED_KEY)
        case RefreshRefusal.unknown:
            return NotAuthenticated(refusal.value)
