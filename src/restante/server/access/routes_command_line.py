"""`/auth/cli`: a person signs in at a command line, by approving a code in a browser.

    command line: start ─▶ shows the code ─▶ polls … ─▶ ready: a token, once
    person:       opens the page, signs in, compares the code, approves

The token is that of a session of the person, with the lifetime of every session. The command line sends it as
`Authorization: Bearer rp_…`. It ends with the person's other sessions, or by `end`.
"""

import math
import time
from collections.abc import Callable
from typing import Annotated, Literal

import msgspec

from restante.core.address_group import address_group
from restante.core.errors import TooManyRequests
from restante.core.token_bucket import TokenBuckets
from restante.database.connection import Connection
from restante.database.database import Database
from restante.identity.devices import device_codes
from restante.identity.devices.device_codes import Approved, DeviceCodeKey, DeviceCodeLimits, DeviceCodeStatus, Purpose
from restante.identity.people import sessions
from restante.updates.devices.routes_auth import TAG, VERIFICATION_PATH, DeviceStartResponse, DeviceStatusResponse
from restante.updates.response_format import RESPONSE_FORMAT
from restante.web.access import bearer_token
from restante.web.origin import user_agent_of
from restante.web.request import ApiRequest
from restante.web.routes import Access, Route, RouteGroup

PATH = "/auth/cli"
INTERVAL_SECONDS = 2
CODE_SECONDS = 600
STARTS_BURST = 20
STARTS_PER_SECOND = 0.5


class CommandLineStart(msgspec.Struct, frozen=True, tag_field="action", tag="start"):
    pass


class CommandLinePoll(msgspec.Struct, frozen=True, tag_field="action", tag="poll"):
    device_code: Annotated[str, msgspec.Meta(min_length=1, max_length=1024)]


class CommandLineEnd(msgspec.Struct, frozen=True, tag_field="action", tag="end"):
    """Ends the session whose token is in `Authorization`."""


class CommandLineSignedIn(msgspec.Struct, frozen=True):
    status: Literal["ready"]
    user_id: int
    access_token: str
    expires_in: int


class CommandLineSignedOut(msgspec.Struct, frozen=True):
    status: Literal["signed_out"]


class CommandLineRoutes:
    def __init__(
        self,
        database: Database,
        code_key: DeviceCodeKey,
        *,
        code_limits: DeviceCodeLimits,
        base_url: str,
        session_seconds: int,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._database = database
        self._code_key = code_key
        self._code_limits = code_limits
        self._base_url = base_url
        self._session_seconds = session_seconds
        self._clock = clock
        self._starts = TokenBuckets(STARTS_PER_SECOND, STARTS_BURST)

    def routes(self) -> list[Route]:
        group = RouteGroup(TAG, RESPONSE_FORMAT)
        return [
            group.post(
                PATH,
                self.command_line,
                Access.open,
                "Sign in at a command line: it starts, a person approves in a browser, it polls; or sign out.",
                errors=(400, 401, 404, 429),
                examples=({"action": "start"},),
            )
        ]

    async def command_line(
        self, request: ApiRequest, body: CommandLineStart | CommandLinePoll | CommandLineEnd
    ) -> DeviceStartResponse | DeviceStatusResponse | CommandLineSignedIn | CommandLineSignedOut:
        match body:
            case CommandLineStart():
                return await self._start(request)
            case CommandLinePoll():
                return await self._poll(body.device_code)
            case CommandLineEnd():
                await self._database.write(sessions.end, bearer_token(request.http))
                return CommandLineSignedOut("signed_out")

    async def _start(self, request: ApiRequest) -> DeviceStartResponse:
        address = request.address
        wait = self._starts.acquire(hash(address_group(address)), self._clock())
        if wait:
            raise TooManyRequests("too many sign-ins start at once", retry_after_seconds=math.ceil(wait))
        codes = await self._database.write(
            device_codes.start,
            self._code_key,
            self._code_limits,
            scopes=[],
            interval_seconds=INTERVAL_SECONDS,
            expires_in=CODE_SECONDS,
            address=address,
            user_agent=user_agent_of(request.http),
            purpose=Purpose.command_line,
        )
        page = self._base_url + VERIFICATION_PATH
        return DeviceStartResponse(
            device_code=codes.device_code,
            user_code=codes.user_code,
            verification_uri=page,
            verification_uri_complete=f"{page}?user_code={codes.user_code}",
            interval=INTERVAL_SECONDS,
            expires_in=CODE_SECONDS,
        )

    async def _poll(self, device_code: str) -> DeviceStatusResponse | CommandLineSignedIn:
        result = await self._database.write(_signed_in, self._code_key, device_code, self._session_seconds)
        return DeviceStatusResponse(result.value) if isinstance(result, DeviceCodeStatus) else result


def _signed_in(
    conn: Connection, code_key: DeviceCodeKey, device_code: str, session_seconds: int
) -> DeviceCodeStatus | CommandLineSignedIn:
    """Consume the approval and start the session in one transaction."""
    result = device_codes.poll(conn, code_key, device_code, None, Purpose.command_line)
    if not isinstance(result, Approved):
        # A poll that names no device is never about a foreign one.
        return result if isinstance(result, DeviceCodeStatus) else DeviceCodeStatus.access_denied
    token = sessions.start(conn, result.user_id, session_seconds, sessions.COMMAND_LINE_PREFIX)
    return CommandLineSignedIn("ready", result.user_id, token, session_seconds)
