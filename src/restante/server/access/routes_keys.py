"""Routes for administrators: API keys and their grants. Keys of a user are also managed by the user: see
`updates.devices.routes_apikeys`."""

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from restante.core.iso_time import Timestamp, iso_precise
from restante.database.database import Database
from restante.database.paging import Page
from restante.identity import administration
from restante.identity.api_keys import NAME_LENGTH_MAX, ApiKey
from restante.server.access.grant_bodies import (
    GrantList,
    GrantsBody,
    GrantView,
    administrator_of,
    grant_views,
    grants_of,
)
from restante.updates.devices.routes_apikeys import LIFETIME_SECONDS_MAX
from restante.updates.response_format import RESPONSE_FORMAT
from restante.web.paging import PAGE_QUERY, page_request_of
from restante.web.request import ApiRequest
from restante.web.response import ApiResponse
from restante.web.routes import Access, Route, RouteGroup

TAG = "API keys"
PATH = "/apiv1/keys"

_GRANTS = [{"role": "operator", "scope": "events:shop"}]


class KeyBody(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    name: Annotated[str, Meta(min_length=1, max_length=NAME_LENGTH_MAX)]
    grants: GrantList
    expires_in_seconds: Annotated[int, Meta(ge=1, le=LIFETIME_SECONDS_MAX)] | None = None


class KeyView(msgspec.Struct, kw_only=True):
    """A key without its secret. `role` is the highest role of the grants. `user_id`: the user that it belongs to."""

    id: int
    name: str
    role: str
    grants: list[GrantView]
    user_id: int | None
    status: Literal["active", "suspended", "revoked"]
    created_at: Timestamp
    expires_at: Timestamp | None
    suspended_at: Timestamp | None
    revoked_at: Timestamp | None


class NewKeyView(KeyView, kw_only=True):
    """A new key: `token` is shown this once."""

    token: str


class KeyRoutes:
    def __init__(self, database: Database) -> None:
        self._database = database

    def routes(self) -> list[Route]:
        group = RouteGroup(TAG, RESPONSE_FORMAT, prefix=PATH, errors=(404,))
        manage, one = Access.manage_access, "/{key_id}"
        created = {"name": "nightly", "grants": _GRANTS}
        return [
            group.post("", self.create, manage, "Create an API key", status=201, examples=(created,)),
            group.get("", self.list_page, manage, "List API keys and their grants", query=PAGE_QUERY),
            group.get(one, self.get, manage, "Show an API key"),
            group.put(
                one + "/grants", self.set_grants, manage, "Replace a key's grants", examples=({"grants": _GRANTS},)
            ),
            group.post(one + "/suspend", self.suspend, manage, "Suspend an API key"),
            group.post(one + "/resume", self.resume, manage, "End the suspension of an API key"),
            group.delete(one, self.remove, manage, "Revoke an API key", status=204),
        ]

    async def create(self, request: ApiRequest, body: KeyBody) -> NewKeyView:
        """The key belongs to no user. It is in `token`, which is shown this once."""
        key, token = await self._database.write(
            administration.create_key,
            administrator_of(request),
            body.name,
            grants_of(body.grants),
            body.expires_in_seconds,
        )
        return NewKeyView(**msgspec.structs.asdict(view(key)), token=token)

    async def list_page(self, request: ApiRequest) -> Page[KeyView]:
        """Keys whose grants are all within the caller's own, revoked ones too."""
        page = await self._database.read(administration.list_keys, administrator_of(request), page_request_of(request))
        return Page([view(key) for key in page.items], page.next)

    async def get(self, request: ApiRequest) -> KeyView:
        key_id = request.path_id("key_id")
        return view(await self._database.read(administration.key, administrator_of(request), key_id))

    async def set_grants(self, request: ApiRequest, body: GrantsBody) -> KeyView:
        """The new grants count at once. Nobody gives grants that they do not have."""
        key_id, by = request.path_id("key_id"), administrator_of(request)
        return view(await self._database.write(administration.set_key_grants, by, key_id, grants_of(body.grants)))

    async def suspend(self, request: ApiRequest) -> KeyView:
        """Refuse the key from now on, on every node."""
        key_id = request.path_id("key_id")
        return view(await self._database.write(administration.suspend_key, administrator_of(request), key_id))

    async def resume(self, request: ApiRequest) -> KeyView:
        key_id = request.path_id("key_id")
        return view(await self._database.write(administration.resume_key, administrator_of(request), key_id))

    async def remove(self, request: ApiRequest) -> ApiResponse:
        """Revoke the key for good. Revoking it again changes nothing."""
        await self._database.write(administration.remove_key, administrator_of(request), request.path_id("key_id"))
        return ApiResponse(204)


def view(key: ApiKey) -> KeyView:
    status: Literal["active", "suspended", "revoked"] = "active" if key.suspended_at is None else "suspended"
    return KeyView(
        id=key.id,
        name=key.name,
        role=key.role.name,
        grants=grant_views(key.grants),
        user_id=key.user_id,
        status=status if key.revoked_at is None else "revoked",
        created_at=iso_precise(key.created_at),
        expires_at=iso_precise(key.expires_at),
        suspended_at=iso_precise(key.suspended_at),
        revoked_at=iso_precise(key.revoked_at),
    )
