"""The developers' portal as one component.

    /developer                 facts and samples, for everybody
    /developer/client          a signed-in client: its backlog, and a button that sends it a test event
    POST /developer/session    signs a client in with an access token that it got from /token
    POST /developer/sign-out   ends that

Invariants:
- The session is the access token itself, in a cookie that scripts cannot read, and ends with it. A token that is bound
  to a certificate opens nothing without that certificate.
- A form is accepted only from a page of this server and of this session.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
from starlette.requests import Request

from restante.core.errors import InvalidToken, NotAllowed, NotAuthenticated, RestanteError, RetryLater, TooManyRequests
from restante.core.token_bucket import TokenBuckets
from restante.database.database import Database
from restante.events.portal import client_area
from restante.events.portal.content import TITLE, PortalFacts, sections
from restante.events.portal.samples import TEST_EVENT_TYPE, samples
from restante.identity.callers import ClientCaller
from restante.identity.clients.client_tokens import ClientTokens
from restante.identity.people import sessions
from restante.web.access import AccessControl, SessionCookie
from restante.web.client_cert import ClientCertificates
from restante.web.component import Component
from restante.web.request import FORM_TYPE, ApiRequest, read_form_fields
from restante.web.response import HTML, NO_STORE, ApiResponse, html_response
from restante.web.routes import Access, Header, RequestBody, ResponseFormat, ResponseInfo, Route, RouteGroup
from restante.web.templates import Templates

TAG = "pages"
PATH = "/developer"
CLIENT_PATH = PATH + "/client"
COOKIE = "restante_client"
# Browsers keep cookies of 4096 bytes with their names and attributes.
TOKEN_CHARACTERS_MAX = 3800
FORM_BYTES_MAX = 16 * 1024
FORM_FIELDS_MAX = 10
TEST_EVENTS_PER_MINUTE = 6
CLIENTS_MAX = 100_000

_HERE = Path(__file__).parent
_templates = Templates(_HERE / "templates")
_STYLESHEET = (_HERE / "assets" / "portal.css").read_bytes()
_REDIRECT = ResponseInfo(303, str, (Header("Location", "the page to open"),), HTML)
_PAGE = ResponseInfo(200, str, media_type=HTML)


class ClientSignInForm(msgspec.Struct):
    """`access_token`: from the token endpoint, without `Bearer`."""

    access_token: str


class ClientForm(msgspec.Struct):
    """`form_token` proves that the form was rendered for this session."""

    form_token: str


class PortalResponseFormat(ResponseFormat):
    """Writes errors as pages; successes are pages already."""

    def success(self, value: Any, status: int = 200) -> ApiResponse:
        return html_response(str(value), status)

    def error(self, error: RestanteError) -> ApiResponse:
        response = html_response(_templates.render("problem.html", title=TITLE, text=error.message), error.status)
        if isinstance(error, RetryLater):
            return response.with_headers((b"retry-after", b"%d" % error.retry_after_seconds))
        return response


PORTAL = PortalResponseFormat()


@dataclass(frozen=True, slots=True)
class PortalAccess:
    """Finds the client that a request is from."""

    control: AccessControl
    tokens: ClientTokens
    certificates: ClientCertificates
    public_url: str | None


class PortalComponent(Component):
    def __init__(
        self,
        database: Database,
        facts: PortalFacts,
        access: PortalAccess,
        newest_poll: Callable[[int, int | None], int | None],
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._database = database
        self._facts = facts
        self._access = access
        self._newest_poll = newest_poll
        self._clock = clock
        self._cookie = SessionCookie(access.public_url, COOKIE)
        self._test_events = TokenBuckets(TEST_EVENTS_PER_MINUTE / 60, TEST_EVENTS_PER_MINUTE, CLIENTS_MAX)

    def routes(self) -> list[Route]:
        group = RouteGroup(TAG, PORTAL)
        sign_in = RequestBody(ClientSignInForm, (FORM_TYPE,))
        form = RequestBody(ClientForm, (FORM_TYPE,))
        return [
            group.get(PATH, self.page, Access.open, "Show the page for developers of clients", responses=(_PAGE,)),
            group.get(
                CLIENT_PATH,
                self.show_client,
                Access.open,
                "Show a signed-in client its backlog",
                responses=(_PAGE,),
                errors=(401,),
            ),
            group.post(
                PATH + "/session",
                self.sign_in,
                Access.open,
                "Sign a client in to the developers' portal",
                status=303,
                request_body=sign_in,
                responses=(_REDIRECT,),
                errors=(401, 403, 413, 415),
            ),
            group.post(
                PATH + "/sign-out",
                self.sign_out,
                Access.open,
                "Sign a client out of the developers' portal",
                status=303,
                request_body=form,
                responses=(_REDIRECT,),
                errors=(401, 403, 413, 415),
            ),
            group.post(
                PATH + "/test-event",
                self.send_test_event,
                Access.open,
                "Send a signed-in client a test event",
                status=303,
                request_body=form,
                responses=(_REDIRECT,),
                errors=(401, 403, 409, 413, 415, 429),
            ),
            group.get(
                "/assets/portal.css",
                self.stylesheet,
                Access.open,
                "The stylesheet of the developers' portal",
                responses=(ResponseInfo(200, str, media_type="text/css"),),
            ),
        ]

    async def page(self, request: ApiRequest) -> ApiResponse:
        """Intervals, limits, retries, retention, algorithms and URLs of this server, and samples that use them."""
        facts = self._facts
        caller = await self._signed_in(request.http)
        values = {"sections": sections(facts, facts.base_url), "samples": samples(facts)}
        return html_response(_templates.render("portal.html", **values, **self._frame(request.http, caller)))

    async def show_client(self, request: ApiRequest) -> ApiResponse:
        """Without a session, a form to sign in with an access token."""
        caller = await self._signed_in(request.http)
        if caller is None:
            return self._sign_in_page(request.http)
        polled_ms = self._newest_poll(caller.id, None)
        area = await self._database.read(client_area.read, caller, polled_ms)
        sent = request.query_text("sent")
        values = {
            "area": area,
            "sent": next((each.jti for each in area.events if each.jti == sent), None),
            "test_event_type": TEST_EVENT_TYPE,
            "has_test_events": self._facts.has_test_events,
            "verify_url": f"{self._facts.base_url}/ssf/verify",
            "minutes_left": max(1, round((caller.expires_at - self._clock()) / 60)),
        }
        return html_response(_templates.render("client.html", **values, **self._frame(request.http, caller)))

    async def sign_in(self, request: ApiRequest) -> ApiResponse:
        self._access.control.refuse_foreign_origin(request.http)
        token = (await self._form(request.http)).get("access_token", "").strip()
        try:
            if len(token) > TOKEN_CHARACTERS_MAX:
                raise InvalidToken(f"the access token has more than {TOKEN_CHARACTERS_MAX} characters")
            caller = await self._verify(request.http, token)
        except InvalidToken as error:
            return self._sign_in_page(request.http, error.message, error.status)
        seconds = max(1, int(caller.expires_at - self._clock()))
        return _redirect(CLIENT_PATH, self._cookie.issue(request.http, token, seconds))

    async def sign_out(self, request: ApiRequest) -> ApiResponse:
        await self._checked_form(request.http)
        return _redirect(PATH, self._cookie.clear(request.http))

    async def send_test_event(self, request: ApiRequest) -> ApiResponse:
        """The event goes to the inbox of this client alone."""
        caller = await self._checked_form(request.http)
        if not self._facts.has_test_events:
            raise NotAllowed("this server sends no test events")
        wait = self._test_events.acquire(caller.id, time.monotonic())
        if wait > 0:
            raise TooManyRequests("wait a little before the next test event", retry_after_seconds=int(wait) + 1)
        jti = await self._database.write(client_area.send_test_event, caller, self._facts.base_url + PATH)
        return _redirect(f"{CLIENT_PATH}?sent={jti}")

    async def stylesheet(self, _request: ApiRequest) -> ApiResponse:
        headers = ((b"content-type", b"text/css; charset=utf-8"), (b"cache-control", b"public, max-age=3600"))
        return ApiResponse(200, headers, _STYLESHEET)

    async def _signed_in(self, request: Request) -> ClientCaller | None:
        token = self._cookie.read(request)
        if not token:
            return None
        try:
            return await self._verify(request, token)
        except InvalidToken:
            return None

    async def _verify(self, request: Request, token: str) -> ClientCaller:
        certificate = self._access.certificates.of_request(request)
        return await self._access.tokens.verify(token, certificate.thumbprint if certificate else None)

    async def _checked_form(self, request: Request) -> ClientCaller:
        """The client of the session; raise an error if the form is not of this session."""
        self._access.control.refuse_foreign_origin(request)
        caller = await self._signed_in(request)
        if caller is None:
            raise NotAuthenticated("the access token has ended: sign in again")
        form = await self._form(request)
        if not sessions.is_form_token(self._cookie.read(request) or "", form.get("form_token", "")):
            raise NotAllowed("this form does not belong to your session; open the page again")
        return caller

    async def _form(self, request: Request) -> dict[str, str]:
        return dict(await read_form_fields(request, FORM_BYTES_MAX, FORM_FIELDS_MAX))

    def _sign_in_page(self, request: Request, problem: str = "", status: int = 200) -> ApiResponse:
        page = _templates.render("sign_in.html", problem=problem, **self._frame(request, None))
        return html_response(page, status)

    def _frame(self, request: Request, caller: ClientCaller | None) -> dict[str, Any]:
        """The values that every page needs."""
        return {
            "title": TITLE,
            "bank_name": self._facts.bank_name,
            "client_id": None if caller is None else caller.client_id,
            "form_token": "" if caller is None else sessions.form_token(self._cookie.read(request) or ""),
        }


def _redirect(path: str, *headers: tuple[bytes, bytes]) -> ApiResponse:
    return ApiResponse(303, (NO_STORE, (b"location", path.encode()), *headers))
