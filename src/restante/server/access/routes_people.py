"""Routes for administrators: people and their grants, and the audit trail of people and API keys."""

import asyncio
from typing import Annotated, Literal

import msgspec

from restante.console.sign_in import INVITATION_PATH
from restante.core.decoding import INT64_MAX
from restante.core.iso_time import Timestamp, iso_precise
from restante.database.database import Database
from restante.database.paging import Page
from restante.identity import access_audit, administration
from restante.identity.access_audit import AccessChange
from restante.identity.people import passwords, users
from restante.identity.people.users import User
from restante.server.access.grant_bodies import (
    GrantList,
    GrantsBody,
    GrantView,
    administrator_of,
    grant_views,
    grants_of,
)
from restante.updates.response_format import RESPONSE_FORMAT
from restante.web.paging import PAGE_QUERY, page_request_of
from restante.web.request import ApiRequest
from restante.web.response import ApiResponse
from restante.web.routes import Access, Query, Route, RouteGroup, RouteOptions

TAG = "people"
PATH = "/apiv1/people"
AUDIT_PATH = "/apiv1/access-audit"

_ID = {"type": "integer", "minimum": 1, "maximum": INT64_MAX}
_AUDIT_QUERY = (
    *PAGE_QUERY,
    Query("person_id", "only changes of this person", _ID),
    Query("key_id", "only changes of this API key", _ID),
)
Password = Annotated[str, msgspec.Meta(min_length=passwords.LENGTH_MIN, max_length=passwords.LENGTH_MAX)]
_NEW_PERSON_EXAMPLE = {
    "email": "new@example.com",
    "password": "correct horse battery",
    "grants": [{"role": "viewer", "scope": "all"}],
}
_INVITED_EXAMPLE = {"email": "invited@example.com", "grants": [{"role": "operator", "scope": "events"}]}
_EXAMPLE = {"grants": [{"role": "operator", "scope": "commands:3"}, {"role": "viewer", "scope": "events"}]}


class PersonView(msgspec.Struct, kw_only=True):
    """`role` is the highest role of the grants. Somebody with the status `invited` has no password yet."""

    id: int
    email: str
    role: str
    grants: list[GrantView]
    status: Literal["active", "invited", "suspended"]
    created_at: Timestamp
    suspended_at: Timestamp | None


class PersonBody(msgspec.Struct, forbid_unknown_fields=True):
    """`password` has at least ten characters. Without one, the person sets it by an invitation."""

    email: Annotated[str, msgspec.Meta(min_length=1, max_length=users.EMAIL_LENGTH_MAX)]
    grants: GrantList
    password: Password | None = None


class PasswordBody(msgspec.Struct, forbid_unknown_fields=True):
    """`password` has at least ten characters."""

    password: Password


class InvitationView(msgspec.Struct):
    """`code` is shown this once. The person enters it at `path` of this server, with a password of their choice."""

    code: str
    path: str
    expires_at: Timestamp


class PeopleRoutes:
    def __init__(self, database: Database) -> None:
        self._database = database

    def routes(self) -> list[Route]:
        group = RouteGroup(TAG, RESPONSE_FORMAT, prefix=PATH, errors=(404,))
        manage, one = Access.manage_access, "/{person_id}"
        grants_options = RouteOptions(errors=(409,), examples=(_EXAMPLE,))
        audit = RouteGroup(TAG, RESPONSE_FORMAT)
        return [
            group.get("", self.list_page, manage, "List people and their grants", query=PAGE_QUERY),
            group.post(
                "",
                self.add,
                Access.manage_people,
                "Add a person",
                status=201,
                errors=(409,),
                examples=(_NEW_PERSON_EXAMPLE, _INVITED_EXAMPLE),
            ),
            group.get(one, self.get, manage, "Show a person"),
            group.post(
                one + "/invitation", self.invite, Access.manage_people, "Invite a person", status=201, errors=(409,)
            ),
            group.put(one + "/password", self.set_password, Access.manage_people, "Set a person's password"),
            group.put(one + "/grants", self.set_grants, manage, "Replace a person's grants", **grants_options),
            group.post(one + "/suspend", self.suspend, manage, "Suspend a person", errors=(409,)),
            group.post(one + "/resume", self.resume, manage, "End the suspension of a person"),
            group.delete(one, self.remove, manage, "Remove a person", status=204, errors=(409,)),
            audit.get(
                AUDIT_PATH,
                self.audit,
                Access.administer,
                "List changes of people and API keys, newest first",
                query=_AUDIT_QUERY,
            ),
        ]

    async def list_page(self, request: ApiRequest) -> Page[PersonView]:
        """People whose grants are all within the caller's own."""
        page = await self._database.read(
            administration.list_people, administrator_of(request), page_request_of(request)
        )
        return Page([view(user) for user in page.items], page.next)

    async def add(self, request: ApiRequest, body: PersonBody) -> PersonView:
        """Nobody gives grants that they do not have."""
        email, grants = users.checked_email(body.email), grants_of(body.grants)
        password_hash = users.NO_PASSWORD if body.password is None else await _hashed(body.password)
        by = administrator_of(request)
        return view(await self._database.write(administration.add_person, by, email, password_hash, grants))

    async def invite(self, request: ApiRequest) -> InvitationView:
        """Make a code with which the person sets a new password, once, within three days.

        It replaces the code before. The password that the person may have stays valid until then.
        """
        person_id, by = request.path_id("person_id"), administrator_of(request)
        invitation = await self._database.write(administration.invite_person, by, person_id)
        return InvitationView(invitation.code, INVITATION_PATH, iso_precise(invitation.expires_at))

    async def set_password(self, request: ApiRequest, body: PasswordBody) -> PersonView:
        """End all sessions of the person."""
        person_id, by = request.path_id("person_id"), administrator_of(request)
        await self._database.read(administration.person, by, person_id)
        password_hash = await _hashed(body.password)
        return view(await self._database.write(administration.set_person_password, by, person_id, password_hash))

    async def get(self, request: ApiRequest) -> PersonView:
        person_id = request.path_id("person_id")
        return view(await self._database.read(administration.person, administrator_of(request), person_id))

    async def set_grants(self, request: ApiRequest, body: GrantsBody) -> PersonView:
        """The new grants count at once, also in sessions that are open. Nobody gives grants that they do not have."""
        person_id, by = request.path_id("person_id"), administrator_of(request)
        grants = grants_of(body.grants)
        return view(await self._database.write(administration.set_person_grants, by, person_id, grants))

    async def suspend(self, request: ApiRequest) -> PersonView:
        """End all sessions of the person, refuse new ones, and refuse the person's own API keys."""
        person_id = request.path_id("person_id")
        return view(await self._database.write(administration.suspend_person, administrator_of(request), person_id))

    async def resume(self, request: ApiRequest) -> PersonView:
        person_id = request.path_id("person_id")
        return view(await self._database.write(administration.resume_person, administrator_of(request), person_id))

    async def remove(self, request: ApiRequest) -> ApiResponse:
        """Remove the person for good, and revoke the person's own API keys. Devices and certificates stay."""
        person_id = request.path_id("person_id")
        await self._database.write(administration.remove_person, administrator_of(request), person_id)
        return ApiResponse(204)

    async def audit(self, request: ApiRequest) -> Page[AccessChange]:
        """Who made, changed, suspended or removed a person or an API key, and when."""
        person_id = request.query_int("person_id", 0, 1, INT64_MAX) or None
        key_id = request.query_int("key_id", 0, 1, INT64_MAX) or None
        return await self._database.read(access_audit.list_page, person_id, key_id, page_request_of(request))


async def _hashed(password: str) -> str:
    passwords.check_new(password)
    return await asyncio.to_thread(passwords.hash_password, password)


def view(user: User) -> PersonView:
    return PersonView(
        id=user.id,
        email=user.email,
        role=user.role.name,
        grants=grant_views(user.grants),
        status="suspended" if user.suspended_at is not None else "active" if user.has_password else "invited",
        created_at=iso_precise(user.created_at),
        suspended_at=iso_precise(user.suspended_at),
    )
