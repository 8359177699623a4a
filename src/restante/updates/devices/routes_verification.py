"""The page behind `verification_uri`: a person signs in, sees which device waits for approval, and decides.

    GET  /device            the sign-in form, or the pending approval, or the form to type a code
    POST /device/sign-in    e-mail and password; redirects back to the page
    POST /device            Approve or Deny; shows the result
    POST /device/sign-out   for a person who signed in with the wrong account

The page works without scripts. It accepts forms of its own pages only: it checks the browser's Origin header, and a
token that belongs to the session.
"""

from typing import Any, Literal
from urllib.parse import urlencode

import msgspec
from starlette.requests import Request

from restante.core.errors import NotAllowed, NotAuthenticated, NotFound
from restante.database.database import Database
from restante.identity.callers import Person
from restante.identity.devices.device_codes import Purpose
from restante.identity.people import sessions
from restante.identity.people.sign_in import SignIn
from restante.updates.devices.approval import Approval
from restante.updates.devices.pages import PAGE, TAG, read_form, render
from restante.updates.devices.routes_auth import VERIFICATION_PATH
from restante.web.access import AccessControl
from restante.web.request import ApiRequest
from restante.web.response import HTML, NO_STORE, ApiResponse, html_response
from restante.web.routes import Access, Header, Query, RequestBody, ResponseInfo, Route, RouteGroup, RouteOptions

CODE_LENGTH_MAX = 32
PASSWORD_LENGTH_MAX = 1024

_FORM = ("application/x-www-form-urlencoded",)
_PAGE = ResponseInfo(200, str, media_type=HTML)
_REDIRECT = ResponseInfo(
    303,
    headers=(
        Header("Location", "The page to show next.", required=True),
        Header("Set-Cookie", "The session cookie of the signed-in person; cleared by a sign-out."),
    ),
)


class SignInForm(msgspec.Struct):
    """The sign-in form of the page."""

    email: str
    password: str
    user_code: str = ""


class SignOutForm(msgspec.Struct):
    """The sign-out button of the page. `form_token` belongs to the session."""

    form_token: str
    user_code: str = ""


class DecisionForm(msgspec.Struct):
    """The buttons of the page. `form_token` belongs to the session."""

    form_token: str
    decision: Literal["approve", "deny"]
    user_code: str


class VerificationRoutes:
    def __init__(
        self,
        database: Database,
        access_control: AccessControl,
        sign_in: SignIn,
        approval: Approval,
    ) -> None:
        self._database = database
        self._access_control = access_control
        self._sign_in = sign_in
        self._approval = approval
        self._cookie = access_control.cookie

    def routes(self) -> list[Route]:
        code = Query("user_code", "The code that the device shows.", {"type": "string"})
        group = RouteGroup(TAG, PAGE, prefix=VERIFICATION_PATH)
        summaries = {
            "show": "The page where a person approves a device.",
            "decide": "The buttons of that page.",
            "sign_in": "The sign-in form of that page.",
            "sign_out": "The sign-out button of that page.",
        }
        return [
            group.get(
                "", self.show, Access.open, summaries["show"], query=(code,), errors=(403, 404), responses=(_PAGE,)
            ),
            group.post("", self.decide, Access.open, summaries["decide"], **_form(DecisionForm, _PAGE, 404)),
            group.post(
                "/sign-in", self.sign_in, Access.open, summaries["sign_in"], **_form(SignInForm, _REDIRECT, 429)
            ),
            group.post("/sign-out", self.sign_out, Access.open, summaries["sign_out"], **_form(SignOutForm, _REDIRECT)),
        ]

    async def show(self, request: ApiRequest) -> ApiResponse:
        user_code = (request.query_text("user_code") or "")[:CODE_LENGTH_MAX]
        person = await self._access_control.person_of(request.http)
        if person is None:
            return _sign_in_page(user_code)
        if not user_code:
            return self._code_page(request.http, person)
        try:
            pending = await self._approval.find_pending(person, user_code)
        except (NotFound, NotAllowed) as error:
            return self._code_page(request.http, person, error.message, error.status)
        template = "decide.html" if pending.purpose is Purpose.device else "decide_command_line.html"
        page = render(template, pending=pending, **self._page_values(request.http, person))
        return html_response(page)

    async def decide(self, request: ApiRequest) -> ApiResponse:
        person, form = await self._checked_form(request.http)
        decision = form.get("decision")
        if decision not in ("approve", "deny"):
            raise NotFound("there is no such button")
        approve = decision == "approve"
        user_code = form.get("user_code", "")[:CODE_LENGTH_MAX]
        purpose = (await self._approval.find_pending(person, user_code)).purpose
        await self._approval.decide(person, user_code, approve=approve, purpose=purpose)
        if approve:
            return _result("Approved", f"The {purpose} is approved. You can go back to it now.")
        return _result("Denied", f"The {purpose} is denied.")

    async def sign_in(self, request: ApiRequest) -> ApiResponse:
        self._access_control.refuse_foreign_origin(request.http)
        form = await read_form(request.http)
        user_code = form.get("user_code", "")[:CODE_LENGTH_MAX]
        email, password = form.get("email", ""), form.get("password", "")[:PASSWORD_LENGTH_MAX]
        try:
            signed_in = await self._sign_in.sign_in(email, password, request.address)
        except NotAuthenticated as error:
            return _sign_in_page(user_code, error.message, error.status)
        cookie = self._cookie.issue(request.http, signed_in.token, self._sign_in.session_seconds)
        return _redirect(user_code, cookie)

    async def sign_out(self, request: ApiRequest) -> ApiResponse:
        _person, form = await self._checked_form(request.http)
        await self._database.write(sessions.end, self._cookie.read(request.http) or "")
        return _redirect(form.get("user_code", "")[:CODE_LENGTH_MAX], self._cookie.clear(request.http))

    async def _checked_form(self, request: Request) -> tuple[Person, dict[str, str]]:
        """The signed-in person and the submitted form; raises NotAllowed if it is not a form of this session."""
        self._access_control.refuse_foreign_origin(request)
        person = await self._access_control.person_of(request)
        if person is None:
            raise NotAuthenticated("your session has ended; open the page again and sign in")
        form = await read_form(request)
        if not sessions.is_form_token(self._cookie.read(request) or "", form.get("form_token", "")):
            raise NotAllowed("this form does not belong to your session; open the page again")
        return person, form

    def _page_values(self, request: Request, person: Person) -> dict[str, str]:
        """The values that every page for a signed-in person needs."""
        return {"email": person.email, "form_token": sessions.form_token(self._cookie.read(request) or "")}

    def _code_page(self, request: Request, person: Person, problem: str = "", status: int = 200) -> ApiResponse:
        values = self._page_values(request, person)
        return html_response(render("enter_code.html", problem=problem, **values), status)


def _form(form_type: Any, response: ResponseInfo, *errors: int) -> RouteOptions:
    return RouteOptions(
        status=response.status,
        request_body=RequestBody(form_type, _FORM),
        errors=(401, 403, *errors),
        responses=(response,),
    )


def _sign_in_page(user_code: str, problem: str = "", status: int = 200) -> ApiResponse:
    return html_response(render("sign_in.html", user_code=user_code, problem=problem), status)


def _result(title: str, text: str) -> ApiResponse:
    return html_response(render("result.html", title=title, text=text))


def _redirect(user_code: str, *headers: tuple[bytes, bytes]) -> ApiResponse:
    query = f"?{urlencode({'user_code': user_code})}" if user_code else ""
    location = (b"location", f"{VERIFICATION_PATH}{query}".encode())
    return ApiResponse(303, (NO_STORE, location, *headers))
