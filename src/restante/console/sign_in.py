"""Pages for people without a session: signing in, with the sessions and the limits that all pages of this server share,
and choosing a password by an invitation, whose code is the proof.
"""

import asyncio

from restante.console.forms.forms import Form, read_form
from restante.console.navigation import ROOT
from restante.console.pages import (
    PASSWORD_CHARACTERS_MAX,
    SIGN_IN_PATH,
    ConsoleRequest,
    Pages,
    PageSet,
    local_path,
    plain_page,
    redirect,
)
from restante.console.rendering.texts import done_text
from restante.core.errors import BadInput, NotAuthenticated, RetryLater
from restante.identity.people import invitations, passwords, sessions
from restante.web.request import ApiRequest
from restante.web.response import ApiResponse
from restante.web.routes import Route

EMAIL_CHARACTERS_MAX = 300
INVITATION_PATH = f"{ROOT}/invitation"
CODE_CHARACTERS_MAX = 200


class SignInPages(PageSet):
    def __init__(self, pages: Pages) -> None:
        self._parts = pages.parts

    def routes(self, pages: Pages) -> list[Route]:
        return [
            pages.open("GET", SIGN_IN_PATH, self.show),
            pages.open("POST", SIGN_IN_PATH, self.sign_in),
            pages.post("/sign-out", self.sign_out, None),
        ]

    async def show(self, request: ApiRequest) -> ApiResponse:
        next_path = local_path(request.query_text("next"))
        if await self._parts.access_control.person_of(request.http) is not None:
            return redirect(next_path)
        return self._page(request, next_path, "", done=done_text(request.query_text("done")))

    async def sign_in(self, request: ApiRequest) -> ApiResponse:
        parts = self._parts
        parts.access_control.refuse_foreign_origin(request.http)
        form = await read_form(request.http)
        next_path = local_path(form.text("next", 2000))
        email = form.text("email", EMAIL_CHARACTERS_MAX)
        password = form.text("password", PASSWORD_CHARACTERS_MAX)
        try:
            signed_in = await parts.sign_in.sign_in(email, password, request.address)
        except (NotAuthenticated, RetryLater) as error:
            text = error.message[:1].upper() + error.message[1:] + "."
            return self._page(request, next_path, text, email=email, status=error.status)
        seconds = parts.sign_in.session_seconds
        return redirect(next_path, parts.access_control.cookie.issue(request.http, signed_in.token, seconds))

    async def sign_out(self, request: ConsoleRequest) -> ApiResponse:
        cookie = self._parts.access_control.cookie
        await request.write(sessions.end, cookie.read(request.http) or "")
        return redirect(f"{SIGN_IN_PATH}?done=signed-out", cookie.clear(request.http))

    def _page(
        self,
        request: ApiRequest,
        next_path: str,
        problem: str,
        *,
        email: str = "",
        done: str | None = None,
        status: int = 200,
    ) -> ApiResponse:
        values = {"title": "Sign in", "problem": problem, "email": email, "done": done}
        shown_next = "" if next_path == ROOT else next_path
        return plain_page(self._parts, request.http, "sign_in.html", status, next=shown_next, **values)


class InvitationPages(PageSet):
    def __init__(self, pages: Pages) -> None:
        self._parts = pages.parts

    def routes(self, pages: Pages) -> list[Route]:
        return [
            pages.open("GET", INVITATION_PATH, self.show),
            pages.open("POST", INVITATION_PATH, self.accept),
        ]

    async def show(self, request: ApiRequest) -> ApiResponse:
        return self._page(request)

    async def accept(self, request: ApiRequest) -> ApiResponse:
        self._parts.access_control.refuse_foreign_origin(request.http)
        form = await read_form(request.http)
        code = form.text("code", CODE_CHARACTERS_MAX).strip()
        try:
            password = _new_password(form)
            # A password is hashed only for a code that exists: hashing is expensive.
            await self._parts.database.read(invitations.check, code)
            password_hash = await asyncio.to_thread(passwords.hash_password, password)
            await self._parts.database.write(invitations.accept, code, password_hash)
        except (BadInput, NotAuthenticated) as error:
            return self._page(request, code, error.message, error.status)
        return redirect(f"{SIGN_IN_PATH}?done=password-set")

    def _page(self, request: ApiRequest, code: str = "", problem: str = "", status: int = 200) -> ApiResponse:
        shown = problem[:1].upper() + problem[1:]
        values = {"title": "Choose your password", "code": code, "problem": shown, "length_min": passwords.LENGTH_MIN}
        return plain_page(self._parts, request.http, "invitation.html", status, **values)


def _new_password(form: Form) -> str:
    password = form.text("password", PASSWORD_CHARACTERS_MAX)
    passwords.check_new(password)
    if password != form.text("again", PASSWORD_CHARACTERS_MAX):
        raise BadInput("again", "the same password twice")
    return password
