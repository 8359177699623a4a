"""The page on which an invited person chooses a password. The code of the invitation is the proof."""

import asyncio

from restante.console.forms import Form, read_form
from restante.console.navigation import ROOT
from restante.console.pages import PASSWORD_CHARACTERS_MAX, SIGN_IN_PATH, Pages, PageSet, plain_page, redirect
from restante.core.errors import BadInput, NotAuthenticated
from restante.identity.people import invitations, passwords
from restante.web.request import ApiRequest
from restante.web.response import ApiResponse
from restante.web.routes import Route

INVITATION_PATH = f"{ROOT}/invitation"
CODE_CHARACTERS_MAX = 200


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
