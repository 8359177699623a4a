"""Operator routes: people, keys, user keys.

Generated from the server's routes by `scripts/generate-operator-client`; do not edit.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from typing import Any, Literal, TypedDict

from msgspec import UNSET, UnsetType

from restante_client.operator.core import BlockingNoun, Noun, as_body
from restante_client.runtime import blocking, blocking_iterator


class PersonView(TypedDict, total=False):
    """`role` is the highest role of the grants. Somebody with the status `invited` has no password yet."""

    id: int
    email: str
    role: str
    grants: list[GrantView]
    status: Literal["active", "invited", "suspended"]
    created_at: str
    suspended_at: str | None


class GrantView(TypedDict, total=False):
    role: str
    scope: str


class PersonViewPage(TypedDict, total=False):
    """`next` is the `after` of the next page, or None on the last page."""

    items: list[PersonView]
    next: int | None


class GrantBody(TypedDict, total=False):
    """A role, and where it counts."""

    role: Literal["admin", "approver", "operator", "viewer"]
    scope: str


class InvitationView(TypedDict, total=False):
    """`code` is shown this once. The person enters it at `path` of this server, with a password of their choice."""

    code: str
    path: str
    expires_at: str


class AccessChange(TypedDict, total=False):
    """A change of a person or of a key: `person_id` or `key_id` names it."""

    id: int
    at: str
    actor: str
    event: str
    person_id: int | None
    key_id: int | None
    detail: Any


class AccessChangePage(TypedDict, total=False):
    """`next` is the `after` of the next page, or None on the last page."""

    items: list[AccessChange]
    next: int | None


class KeyView(TypedDict, total=False):
    """A key without its secret. `role` is the highest role of the grants. `user_id`: the user that it belongs to."""

    id: int
    name: str
    role: str
    grants: list[GrantView]
    user_id: int | None
    status: Literal["active", "revoked", "suspended"]
    created_at: str
    expires_at: str | None
    suspended_at: str | None
    revoked_at: str | None


class KeyViewPage(TypedDict, total=False):
    """`next` is the `after` of the next page, or None on the last page."""

    items: list[KeyView]
    next: int | None


class NewKeyView(TypedDict, total=False):
    """A new key: `token` is shown this once."""

    id: int
    name: str
    role: str
    grants: list[GrantView]
    user_id: int | None
    status: Literal["active", "revoked", "suspended"]
    created_at: str
    expires_at: str | None
    suspended_at: str | None
    revoked_at: str | None
    token: str


class ApiKeyView(TypedDict, total=False):
    """A key without its secret."""

    id: int
    user_id: int
    name: str
    role: str
    created_at: str
    expires_at: str | None
    revoked_at: str | None


class ApiKeyViewPage(TypedDict, total=False):
    """`next` is the `after` of the next page, or None on the last page."""

    items: list[ApiKeyView]
    next: int | None


class ApiKeyPermission(TypedDict, total=False):
    """A permission of the certificate product. Its scripts send them; here the role decides."""

    obtype: str
    obid: str | int
    actions: list[str]


class CreatedApiKey(TypedDict, total=False):
    """A new key: `token` is shown this once."""

    id: int
    user_id: int
    name: str
    role: str
    created_at: str
    expires_at: str | None
    revoked_at: str | None
    token: str
    expires_in_seconds: int | None


class People(Noun):
    def list(self) -> AsyncGenerator[PersonView, None]:
        """List people and their grants: all pages."""
        return self.pages("/apiv1/people", {}, is_wrapped=True)

    async def list_page(self, *, limit: int | None = None, after: int | None = None) -> PersonViewPage:
        """List people and their grants: one page."""
        found: PersonViewPage = await self.call(
            "GET", "/apiv1/people", query={"limit": limit, "after": after}, is_wrapped=True
        )
        return found

    async def get(self, person_id: int) -> PersonView:
        """Show a person."""
        found: PersonView = await self.call("GET", f"/apiv1/people/{self.quoted(person_id)}", is_wrapped=True)
        return found

    async def create(
        self, *, email: str, grants: Sequence[GrantBody], password: str | UnsetType | None = UNSET
    ) -> PersonView:
        """Add a person."""
        found: PersonView = await self.call(
            "POST", "/apiv1/people", body=as_body(email=email, grants=grants, password=password), is_wrapped=True
        )
        return found

    async def invite(self, person_id: int) -> InvitationView:
        """Invite a person."""
        found: InvitationView = await self.call(
            "POST", f"/apiv1/people/{self.quoted(person_id)}/invitation", is_wrapped=True
        )
        return found

    async def set_password(self, person_id: int, *, password: str) -> PersonView:
        """Set a person's password."""
        found: PersonView = await self.call(
            "PUT", f"/apiv1/people/{self.quoted(person_id)}/password", body=as_body(password=password), is_wrapped=True
        )
        return found

    async def set_grants(self, person_id: int, *, grants: Sequence[GrantBody]) -> PersonView:
        """Replace a person's grants."""
        found: PersonView = await self.call(
            "PUT", f"/apiv1/people/{self.quoted(person_id)}/grants", body=as_body(grants=grants), is_wrapped=True
        )
        return found

    async def suspend(self, person_id: int) -> PersonView:
        """Suspend a person."""
        found: PersonView = await self.call("POST", f"/apiv1/people/{self.quoted(person_id)}/suspend", is_wrapped=True)
        return found

    async def resume(self, person_id: int) -> PersonView:
        """End the suspension of a person."""
        found: PersonView = await self.call("POST", f"/apiv1/people/{self.quoted(person_id)}/resume", is_wrapped=True)
        return found

    async def remove(self, person_id: int) -> None:
        """Remove a person."""
        await self.call("DELETE", f"/apiv1/people/{self.quoted(person_id)}")

    def audit(self, *, person_id: int | None = None, key_id: int | None = None) -> AsyncGenerator[AccessChange, None]:
        """List changes of people and API keys, newest first: all pages."""
        return self.pages("/apiv1/access-audit", {"person_id": person_id, "key_id": key_id}, is_wrapped=True)

    async def audit_page(
        self,
        *,
        limit: int | None = None,
        after: int | None = None,
        person_id: int | None = None,
        key_id: int | None = None,
    ) -> AccessChangePage:
        """List changes of people and API keys, newest first: one page."""
        found: AccessChangePage = await self.call(
            "GET",
            "/apiv1/access-audit",
            query={"limit": limit, "after": after, "person_id": person_id, "key_id": key_id},
            is_wrapped=True,
        )
        return found


class BlockingPeople(BlockingNoun[People]):
    list = blocking_iterator(People.list)
    list_page = blocking(People.list_page)
    get = blocking(People.get)
    create = blocking(People.create)
    invite = blocking(People.invite)
    set_password = blocking(People.set_password)
    set_grants = blocking(People.set_grants)
    suspend = blocking(People.suspend)
    resume = blocking(People.resume)
    remove = blocking(People.remove)
    audit = blocking_iterator(People.audit)
    audit_page = blocking(People.audit_page)


class Keys(Noun):
    def list(self) -> AsyncGenerator[KeyView, None]:
        """List API keys and their grants: all pages."""
        return self.pages("/apiv1/keys", {}, is_wrapped=True)

    async def list_page(self, *, limit: int | None = None, after: int | None = None) -> KeyViewPage:
        """List API keys and their grants: one page."""
        found: KeyViewPage = await self.call(
            "GET", "/apiv1/keys", query={"limit": limit, "after": after}, is_wrapped=True
        )
        return found

    async def get(self, key_id: int) -> KeyView:
        """Show an API key."""
        found: KeyView = await self.call("GET", f"/apiv1/keys/{self.quoted(key_id)}", is_wrapped=True)
        return found

    async def create(
        self, *, name: str, grants: Sequence[GrantBody], expires_in_seconds: int | UnsetType | None = UNSET
    ) -> NewKeyView:
        """Create an API key."""
        found: NewKeyView = await self.call(
            "POST",
            "/apiv1/keys",
            body=as_body(name=name, grants=grants, expires_in_seconds=expires_in_seconds),
            is_wrapped=True,
        )
        return found

    async def set_grants(self, key_id: int, *, grants: Sequence[GrantBody]) -> KeyView:
        """Replace a key's grants."""
        found: KeyView = await self.call(
            "PUT", f"/apiv1/keys/{self.quoted(key_id)}/grants", body=as_body(grants=grants), is_wrapped=True
        )
        return found

    async def suspend(self, key_id: int) -> KeyView:
        """Suspend an API key."""
        found: KeyView = await self.call("POST", f"/apiv1/keys/{self.quoted(key_id)}/suspend", is_wrapped=True)
        return found

    async def resume(self, key_id: int) -> KeyView:
        """End the suspension of an API key."""
        found: KeyView = await self.call("POST", f"/apiv1/keys/{self.quoted(key_id)}/resume", is_wrapped=True)
        return found

    async def revoke(self, key_id: int) -> None:
        """Revoke an API key."""
        await self.call("DELETE", f"/apiv1/keys/{self.quoted(key_id)}")


class BlockingKeys(BlockingNoun[Keys]):
    list = blocking_iterator(Keys.list)
    list_page = blocking(Keys.list_page)
    get = blocking(Keys.get)
    create = blocking(Keys.create)
    set_grants = blocking(Keys.set_grants)
    suspend = blocking(Keys.suspend)
    resume = blocking(Keys.resume)
    revoke = blocking(Keys.revoke)


class UserKeys(Noun):
    def list(self, user_id: int) -> AsyncGenerator[ApiKeyView, None]:
        """List the user's API keys: all pages."""
        return self.pages(f"/apiv1/users/{self.quoted(user_id)}/apikeys", {"page": "object"}, is_wrapped=True)

    async def list_page(self, user_id: int, *, limit: int | None = None, after: int | None = None) -> ApiKeyViewPage:
        """List the user's API keys: one page."""
        found: ApiKeyViewPage = await self.call(
            "GET",
            f"/apiv1/users/{self.quoted(user_id)}/apikeys",
            query={"limit": limit, "after": after, "page": "object"},
            is_wrapped=True,
        )
        return found

    async def create(
        self,
        user_id: int,
        *,
        name: str,
        role: Literal["admin", "approver", "operator", "viewer"] | UnsetType | None = UNSET,
        expires_in_seconds: int | UnsetType | None = UNSET,
        permissions: Sequence[ApiKeyPermission] | UnsetType | None = UNSET,
    ) -> CreatedApiKey:
        """Create an API key for the user's own resources."""
        found: CreatedApiKey = await self.call(
            "POST",
            f"/apiv1/users/{self.quoted(user_id)}/apikeys",
            body=as_body(name=name, role=role, expires_in_seconds=expires_in_seconds, permissions=permissions),
            is_wrapped=True,
        )
        return found

    async def revoke(self, user_id: int, apikey_id: int) -> None:
        """Revoke the API key."""
        await self.call("DELETE", f"/apiv1/users/{self.quoted(user_id)}/apikeys/{self.quoted(apikey_id)}")


class BlockingUserKeys(BlockingNoun[UserKeys]):
    list = blocking_iterator(UserKeys.list)
    list_page = blocking(UserKeys.list_page)
    create = blocking(UserKeys.create)
    revoke = blocking(UserKeys.revoke)
