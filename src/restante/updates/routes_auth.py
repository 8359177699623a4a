"""How devices and people come by what they call with: `/auth/device`, `/auth/refresh`, `/auth/general`.

Clients in the field send more than is asked here (names and versions of themselves): the rest is not looked at.
"""

import math
import time
from collections.abc import Callable
from typing import Annotated, Literal

import msgspec
from starlette.requests import Request

from restante.core.errors import NotAllowed, NotAuthenticated, TooManyRequests
from restante.core.token_bucket import TokenBuckets
from restante.database.database import Database
from restante.identity import device_codes, refresh_tokens, sessions
from restante.identity.device_codes import NotTheirDevice
from restante.identity.device_tokens import INT64_MAX, DeviceTokens
from restante.identity.refresh_key import RefreshKey
from restante.identity.refresh_tokens import Refusal
from restante.identity.registration_codes import CODE_SECONDS
from restante.identity.sign_in import SignIn
from restante.updates import device_sessions
from restante.updates.approval import Approval
from restante.updates.device_sessions import MayCall, MayRegister
from restante.updates.session_cookie import SessionCookie
from restante.updates.session_wire import Session, session_of
from restante.updates.wire import REFRESH_ROTATED_KEY, SHAPE
from restante.web.access import SESSION_COOKIE, Gate, refuse_foreign_origin
from restante.web.answer import Answer
from restante.web.ask import Ask
from restante.web.origin import address_of, base_url_of, user_agent_of
from restante.web.routes import Access, Route

TAG = "authentication"
VERIFICATION_PATH = "/device"
# A start is a row on disk that anybody may ask for: plenty for a building full of devices, not for a flood.
STARTS_BURST = 500
STARTS_PER_SECOND = 50.0

Scope = Annotated[str, msgspec.Meta(min_length=1, max_length=100)]
Secret = Annotated[str, msgspec.Meta(min_length=1, max_length=1024)]


class DeviceStart(msgspec.Struct, frozen=True, tag_field="action", tag="device_start"):
    scopes: Annotated[list[Scope], msgspec.Meta(max_length=20)] | Annotated[str, msgspec.Meta(max_length=1000)] = (
        msgspec.field(default_factory=list)
    )
    interval: Annotated[int, msgspec.Meta(ge=1, le=300)] = 5
    expires_in: Annotated[int, msgspec.Meta(ge=30, le=3600)] = 900


class DeviceVerify(msgspec.Struct, frozen=True, tag_field="action", tag="device_verify"):
    user_code: Annotated[str, msgspec.Meta(min_length=1, max_length=32)]
    approve: bool


class DevicePoll(msgspec.Struct, frozen=True, tag_field="action", tag="device_poll"):
    device_code: Secret
    device_id: Annotated[int, msgspec.Meta(ge=1, le=INT64_MAX)] | None = None


class Login(msgspec.Struct, frozen=True, tag_field="action", tag="login"):
    email: Annotated[str, msgspec.Meta(min_length=1, max_length=254)]
    password: Secret


class Logout(msgspec.Struct, frozen=True, tag_field="action", tag="logout"):
    pass


class Refresh(msgspec.Struct, frozen=True):
    refresh_token: Secret


class Started(msgspec.Struct, frozen=True):
    device_code: str
    user_code: str
    verification_uri: str
    verification_uri_complete: str
    interval: int
    expires_in: int


class Status(msgspec.Struct, frozen=True):
    status: str


class ReadyToRegister(msgspec.Struct, frozen=True):
    status: Literal["ready"]
    user_id: int
    registration_code: str
    registration_code_ttl: int


class ReadyToCall(msgspec.Struct, frozen=True):
    status: Literal["ready"]
    access_token: str
    refresh_token: str
    token_type: str
    expires_in: int


class Refreshed(msgspec.Struct, frozen=True):
    """The pair twice: field clients look in either place."""

    access_token: str
    refresh_token: str
    token_type: str
    expires_in: int
    session: Session


class AuthRoutes:
    def __init__(
        self,
        database: Database,
        gate: Gate,
        tokens: DeviceTokens,
        sign_in: SignIn,
        approval: Approval,
        refresh_key: RefreshKey,
        *,
        public_url: str | None = None,
        refresh_token_seconds: int = refresh_tokens.REFRESH_TOKEN_SECONDS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._database = database
        self._gate = gate
        self._tokens = tokens
        self._sign_in = sign_in
        self._approval = approval
        self._refresh_key = refresh_key
        self._public_url = public_url
        self._cookie = SessionCookie(public_url)
        self._refresh_token_seconds = refresh_token_seconds
        self._clock = clock
        self._starts = TokenBuckets(STARTS_PER_SECOND, STARTS_BURST)

    def routes(self) -> list[Route]:
        return [
            Route(
                "POST",
                "/auth/device",
                self.device,
                Access.open,
                "Let a device in: it starts, a person verifies, it polls.",
                SHAPE,
                TAG,
                refusals=(400, 401, 403, 404, 429),
            ),
            Route(
                "POST",
                "/auth/refresh",
                self.refresh,
                Access.open,
                "Exchange a refresh token for a new pair of tokens.",
                SHAPE,
                TAG,
                refusals=(400, 401, 403),
            ),
            Route(
                "POST",
                "/auth/general",
                self.general,
                Access.open,
                "Sign in with e-mail and password, or sign out.",
                SHAPE,
                TAG,
                refusals=(400, 401, 403, 429),
            ),
        ]

    async def device(
        self, ask: Ask, body: DeviceStart | DeviceVerify | DevicePoll
    ) -> Started | Status | ReadyToRegister | ReadyToCall:
        match body:
            case DeviceStart():
                return await self._start(ask.request, body)
            case DeviceVerify():
                return await self._verify(ask.request, body)
            case DevicePoll():
                return await self._poll(body)

    async def refresh(self, _ask: Ask, body: Refresh) -> Refreshed:
        result = await self._database.write(
            refresh_tokens.exchange, self._refresh_key, body.refresh_token, self._refresh_token_seconds
        )
        if isinstance(result, Refusal):
            raise _refused(result)
        session = session_of(self._tokens, result.user_id, result.device_id, result.refresh_token)
        return Refreshed(**msgspec.structs.asdict(session), session=session)

    async def general(self, ask: Ask, body: Login | Logout) -> Answer:
        refuse_foreign_origin(ask.request)
        if isinstance(body, Logout):
            return await self._log_out(ask.request)
        person, token = await self._sign_in.sign_in(body.email, body.password, address_of(ask.request))
        answer = SHAPE.success({"user": {"id": person.user_id, "email": person.email}})
        return answer.with_headers(self._cookie.given(ask.request, token, self._sign_in.session_seconds))

    async def _start(self, request: Request, body: DeviceStart) -> Started:
        base_url = base_url_of(request, self._public_url)
        address = address_of(request)
        wait = self._starts.take(hash(address), self._clock())
        if wait:
            raise TooManyRequests("too many devices start at once", retry_after_seconds=math.ceil(wait))
        started = await self._database.write(
            device_codes.start,
            scopes=body.scopes.split() if isinstance(body.scopes, str) else body.scopes,
            interval_seconds=body.interval,
            expires_in=body.expires_in,
            address=address,
            user_agent=user_agent_of(request),
        )
        return Started(
            device_code=started.device_code,
            user_code=started.user_code,
            verification_uri=base_url + VERIFICATION_PATH,
            verification_uri_complete=f"{base_url}{VERIFICATION_PATH}?user_code={started.user_code}",
            interval=body.interval,
            expires_in=body.expires_in,
        )

    async def _verify(self, request: Request, body: DeviceVerify) -> Status:
        person = await self._gate.person_of(request)
        if person is None:
            raise NotAuthenticated("sign in to let a device in")
        refuse_foreign_origin(request)
        await self._approval.decide(person, body.user_code, approve=body.approve)
        return Status("approved" if body.approve else "denied")

    async def _poll(self, body: DevicePoll) -> Status | ReadyToRegister | ReadyToCall:
        result = await self._database.write(
            device_sessions.poll, body.device_code, body.device_id, self._refresh_key, self._refresh_token_seconds
        )
        match result:
            case NotTheirDevice():
                raise NotAllowed("the device is not active or not the user's")
            case MayRegister(user_id, code):
                return ReadyToRegister("ready", user_id, code, CODE_SECONDS)
            case MayCall(user_id, device_id, refresh_token):
                session = session_of(self._tokens, user_id, device_id, refresh_token)
                return ReadyToCall("ready", **msgspec.structs.asdict(session))
            case standing:
                return Status(standing.value)

    async def _log_out(self, request: Request) -> Answer:
        token = request.cookies.get(SESSION_COOKIE)
        if token:
            await self._database.write(sessions.end, token)
        return SHAPE.success({"status": "signed_out"}).with_headers(self._cookie.cleared(request))


def _refused(refusal: Refusal) -> NotAuthenticated | NotAllowed:
    match refusal:
        case Refusal.device_inactive:
            return NotAllowed(refusal.value)
        case Refusal.rotated:
            return NotAuthenticated(refusal.value, key=REFRESH_ROTATED_KEY)
        case Refusal.unknown:
            return NotAuthenticated(refusal.value)
