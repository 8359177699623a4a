"""The page behind `verification_uri`: a person signs in, sees what asks to be let in, and presses a button.

    GET  /device            the sign-in form, or the code's question, or the form to type a code
    POST /device/sign-in    e-mail and password; leads back to the page
    POST /device            Approve or Deny; says what was done
    POST /device/sign-out   for whoever signed in as the wrong person

Works without scripts. A form is accepted from our own pages only: by the browser's Origin header, and by a
token that belongs to the session.
"""

from urllib.parse import urlencode

from starlette.requests import Request

from restante.core.errors import NotAllowed, NotAuthenticated, NotFound
from restante.database.database import Database
from restante.identity import sessions
from restante.identity.callers import Person
from restante.identity.sign_in import SignIn
from restante.updates.approval import Approval
from restante.updates.pages import PAGE, TAG, read_form, render
from restante.updates.routes_auth import VERIFICATION_PATH
from restante.updates.session_cookie import SessionCookie
from restante.web.access import SESSION_COOKIE, Gate, refuse_foreign_origin
from restante.web.answer import NO_STORE, Answer, html_answer
from restante.web.ask import Ask
from restante.web.origin import address_of
from restante.web.routes import Access, Query, Route

CODE_LENGTH_MAX = 32
PASSWORD_LENGTH_MAX = 1024


class VerificationRoutes:
    def __init__(
        self, database: Database, gate: Gate, sign_in: SignIn, approval: Approval, *, public_url: str | None
    ) -> None:
        self._database = database
        self._gate = gate
        self._sign_in = sign_in
        self._approval = approval
        self._cookie = SessionCookie(public_url)

    def routes(self) -> list[Route]:
        code = Query("user_code", "The code the device shows.", {"type": "string"})
        path = VERIFICATION_PATH
        summaries = {
            "show": "The page where a person lets a device in.",
            "decide": "The buttons of that page.",
            "sign_in": "The sign-in form of that page.",
            "sign_out": "The sign-out button of that page.",
        }
        return [
            Route("GET", path, self.show, Access.open, summaries["show"], PAGE, TAG, query=(code,)),
            Route("POST", path, self.decide, Access.open, summaries["decide"], PAGE, TAG),
            Route("POST", f"{path}/sign-in", self.sign_in, Access.open, summaries["sign_in"], PAGE, TAG),
            Route("POST", f"{path}/sign-out", self.sign_out, Access.open, summaries["sign_out"], PAGE, TAG),
        ]

    async def show(self, ask: Ask) -> Answer:
        user_code = (ask.query_text("user_code") or "")[:CODE_LENGTH_MAX]
        person = await self._gate.person_of(ask.request)
        if person is None:
            return _sign_in_page(user_code)
        if not user_code:
            return _code_page(ask.request, person)
        try:
            waiting = await self._approval.look(person, user_code)
        except (NotFound, NotAllowed) as error:
            return _code_page(ask.request, person, error.message, error.status)
        page = render("decide.html", waiting=waiting, **_about(ask.request, person))
        return html_answer(page)

    async def decide(self, ask: Ask) -> Answer:
        person, form = await self._own_form(ask.request)
        decision = form.get("decision")
        if decision not in ("approve", "deny"):
            raise NotFound("there is no such button")
        approve = decision == "approve"
        await self._approval.decide(person, form.get("user_code", "")[:CODE_LENGTH_MAX], approve=approve)
        if approve:
            return _result("Approved", "The device is let in. You can go back to it now.")
        return _result("Denied", "The device is not let in.")

    async def sign_in(self, ask: Ask) -> Answer:
        refuse_foreign_origin(ask.request)
        form = await read_form(ask.request)
        user_code = form.get("user_code", "")[:CODE_LENGTH_MAX]
        email, password = form.get("email", ""), form.get("password", "")[:PASSWORD_LENGTH_MAX]
        try:
            signed_in = await self._sign_in.sign_in(email, password, address_of(ask.request))
        except NotAuthenticated as error:
            return _sign_in_page(user_code, error.message, error.status)
        cookie = self._cookie.given(ask.request, signed_in.token, self._sign_in.session_seconds)
        return _lead_back(user_code, cookie)

    async def sign_out(self, ask: Ask) -> Answer:
        _person, form = await self._own_form(ask.request)
        await self._database.write(sessions.end, ask.request.cookies[SESSION_COOKIE])
        return _lead_back(form.get("user_code", "")[:CODE_LENGTH_MAX], self._cookie.cleared(ask.request))

    async def _own_form(self, request: Request) -> tuple[Person, dict[str, str]]:
        """The person signed in and what they posted; NotAllowed if it was not a form of this session's."""
        refuse_foreign_origin(request)
        person = await self._gate.person_of(request)
        if person is None:
            raise NotAuthenticated("your session has ended; open the page again and sign in")
        form = await read_form(request)
        if not sessions.is_form_token(request.cookies[SESSION_COOKIE], form.get("form_token", "")):
            raise NotAllowed("this form is not of your session; open the page again")
        return person, form


def _about(request: Request, person: Person) -> dict[str, str]:
    """What every page for a signed-in person shows and carries."""
    return {"email": person.email, "form_token": sessions.form_token(request.cookies[SESSION_COOKIE])}


def _sign_in_page(user_code: str, problem: str = "", status: int = 200) -> Answer:
    return html_answer(render("sign_in.html", user_code=user_code, problem=problem), status)


def _code_page(request: Request, person: Person, problem: str = "", status: int = 200) -> Answer:
    return html_answer(render("enter_code.html", problem=problem, **_about(request, person)), status)


def _result(title: str, text: str) -> Answer:
    return html_answer(render("result.html", title=title, text=text))


def _lead_back(user_code: str, *headers: tuple[bytes, bytes]) -> Answer:
    query = f"?{urlencode({'user_code': user_code})}" if user_code else ""
    location = (b"location", f"{VERIFICATION_PATH}{query}".encode())
    return Answer(303, (NO_STORE, location, *headers))
