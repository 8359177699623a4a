"""People: their grants, whether they may sign in, and who changed that. An administrator sees the people whose grants
are all within their own."""

from contextlib import suppress

from restante.console.forms.forms import Form
from restante.console.navigation import ROOT
from restante.console.pages import ANY_ADMIN, ConsoleRequest, Hit, Pages, PageSet
from restante.console.sign_in import INVITATION_PATH
from restante.core.decoding import DIGITS
from restante.core.errors import BadInput, NotFound, RestanteError
from restante.database.connection import Connection
from restante.database.paging import PageRequest
from restante.identity import access_audit, administration
from restante.identity.administration import Administrator
from restante.identity.grants import EXPECTED_SCOPE, Grants, Role, checked_grants
from restante.identity.people import invitations
from restante.identity.people.invitations import Invitation
from restante.identity.people.users import EMAIL_LENGTH_MAX, NO_PASSWORD, User
from restante.web.response import ApiResponse
from restante.web.routes import Route

PATH = "/people"
ROLES = [role.name for role in Role]
EMPTY_GRANT_ROWS = 2
CHANGES_SHOWN = 50


class PeoplePages(PageSet):
    needs = ANY_ADMIN

    def routes(self, pages: Pages) -> list[Route]:
        one = PATH + "/{person_id}"
        return [
            pages.get(PATH, self.show_list, ANY_ADMIN),
            pages.get(PATH + "/new", self.show_form, ANY_ADMIN),
            pages.post(PATH + "/new", self.add, ANY_ADMIN, asks_password=True, what="add a person"),
            pages.get(one, self.show, ANY_ADMIN),
            pages.post(one + "/invite", self.invite, ANY_ADMIN, asks_password=True, what="invite the person"),
            pages.post(one + "/grants", self.set_grants, ANY_ADMIN),
            pages.post(one + "/suspend", self.suspend, ANY_ADMIN),
            pages.post(one + "/resume", self.resume, ANY_ADMIN),
            pages.post(one + "/remove", self.remove, ANY_ADMIN, is_final=True, what="remove the person"),
        ]

    async def show_list(self, request: ConsoleRequest) -> ApiResponse:
        page = await request.read(administration.list_people, request.administrator, request.page())
        return request.render(
            "people/list.html",
            section="people",
            title="People",
            page=page,
            address=request.page_link,
            state_of=state_of,
        )

    async def show_form(self, request: ConsoleRequest) -> ApiResponse:
        return self._form(request)

    async def add(self, request: ConsoleRequest) -> ApiResponse:
        """Add a person without a password. The page after this shows the link of the invitation, once."""
        form = request.form
        try:
            email, grants = form.required("email", EMAIL_LENGTH_MAX), grants_in(form)
            person, invitation = await request.write(_add_and_invite, request.administrator, email, grants)
        except RestanteError as error:
            return self._form(request, error)
        return await self._page(request, person, invitation=invitation)

    async def invite(self, request: ConsoleRequest) -> ApiResponse:
        """Let the person set a new password. The page after this shows the link of the invitation, once."""
        person = await self._person(request)
        invitation = await request.write(administration.invite_person, request.administrator, person.id)
        return await self._page(request, person, invitation=invitation)

    async def show(self, request: ConsoleRequest) -> ApiResponse:
        return await self._page(request, await self._person(request))

    async def set_grants(self, request: ConsoleRequest) -> ApiResponse:
        person = await self._person(request)
        try:
            grants = grants_in(request.form)
            await request.write(administration.set_person_grants, request.administrator, person.id, grants)
        except RestanteError as error:
            return await self._page(request, person, error)
        return request.redirect(_path(person.id), done="person-changed")

    async def suspend(self, request: ConsoleRequest) -> ApiResponse:
        person_id = request.path_id("person_id")
        await request.write(administration.suspend_person, request.administrator, person_id)
        return request.redirect(_path(person_id), done="person-suspended")

    async def resume(self, request: ConsoleRequest) -> ApiResponse:
        person_id = request.path_id("person_id")
        await request.write(administration.resume_person, request.administrator, person_id)
        return request.redirect(_path(person_id), done="person-resumed")

    async def remove(self, request: ConsoleRequest) -> ApiResponse:
        await request.write(administration.remove_person, request.administrator, request.path_id("person_id"))
        return request.redirect(ROOT + PATH, done="person-removed")

    async def find(self, request: ConsoleRequest, text: str) -> list[Hit]:
        """By id or e-mail."""
        found: User | None = None
        if DIGITS.fullmatch(text) and len(text) < 19:
            with suppress(NotFound):
                found = await request.read(administration.person, request.administrator, int(text))
        elif "@" in text:
            found = await request.read(administration.find_person, request.administrator, text)
        if found is None:
            return []
        return [Hit("Person", found.email, _path(found.id), ", ".join(found.grants.as_texts()))]

    async def _person(self, request: ConsoleRequest) -> User:
        return await request.read(administration.person, request.administrator, request.path_id("person_id"))

    def _form(self, request: ConsoleRequest, problem: RestanteError | None = None) -> ApiResponse:
        return request.render(
            "people/new.html",
            section="people",
            title="Add a person",
            http_status=200 if problem is None else problem.status,
            email=request.form.text("email"),
            email_max=EMAIL_LENGTH_MAX,
            grant_rows=grant_rows(None, request.form if problem else None),
            roles=ROLES,
            expected_scope=EXPECTED_SCOPE,
            problem="" if problem is None else problem.message,
        )

    async def _page(
        self,
        request: ConsoleRequest,
        person: User,
        problem: RestanteError | None = None,
        invitation: Invitation | None = None,
    ) -> ApiResponse:
        changes = None
        if request.may(None, Role.admin):
            changes = await request.read(access_audit.list_page, person.id, None, PageRequest(CHANGES_SHOWN, 0))
        return request.render(
            "people/person.html",
            section="people",
            title=person.email,
            http_status=200 if problem is None else problem.status,
            subject=person,
            invited_until=await request.read(invitations.expires_at, person.id),
            link="" if invitation is None else link_of(request, invitation),
            shown_state=state_of(person),
            is_self=person.id == request.person.user_id,
            path=_path(person.id),
            grant_rows=grant_rows(person.grants, request.form if problem else None),
            roles=ROLES,
            expected_scope=EXPECTED_SCOPE,
            problem="" if problem is None else problem.message,
            changes=None if changes is None else changes.items,
        )


def link_of(request: ConsoleRequest, invitation: Invitation) -> str:
    """The address that the person opens. The code is behind the `#`: browsers do not send it to servers, so it is in
    no log."""
    return f"{request.http.headers.get('origin', '')}{INVITATION_PATH}#{invitation.code}"


def state_of(person: User) -> str:
    if person.suspended_at is not None:
        return "suspended"
    return "active" if person.has_password else "invited"


def grants_in(form: Form) -> Grants:
    """The grants of the rows of a form: a role and a scope each. Rows without a scope are left out."""
    roles, scopes = form.texts("role"), form.texts("scope")
    pairs = [(role, scope.strip()) for role, scope in zip(roles, scopes, strict=False) if scope.strip()]
    if any(role not in ROLES for role, _ in pairs):
        raise BadInput("role", f"one of {', '.join(ROLES)}")
    return checked_grants((Role[role], scope) for role, scope in pairs)


def grant_rows(grants: Grants | None, form: Form | None = None) -> list[tuple[str, str]]:
    """The rows of the editor of grants: those given, or those that were posted, and some empty ones."""
    if form is not None:
        rows = list(zip(form.texts("role"), form.texts("scope"), strict=False))
    else:
        rows = [] if grants is None else [(grant.role.name, str(grant.scope)) for grant in grants.items]
    rows = [row for row in rows if row[1].strip()]
    return rows + [("viewer", "")] * EMPTY_GRANT_ROWS


def _add_and_invite(conn: Connection, by: Administrator, email: str, grants: Grants) -> tuple[User, Invitation]:
    person = administration.add_person(conn, by, email, NO_PASSWORD, grants)
    return person, administration.invite_person(conn, by, person.id)


def _path(person_id: int) -> str:
    return f"{ROOT}{PATH}/{person_id}"
