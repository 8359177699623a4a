"""Routes for the API keys of a user: create, list, revoke.

A key of a user opens the user's own resources, and nothing else. It cannot create further keys: a person who
finds a leaked key must not keep access after it is revoked.
"""

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from restante.core.decoding import INT64_MAX
from restante.core.errors import NotAllowed
from restante.core.iso_time import Timestamp, iso_precise
from restante.database.connection import Connection
from restante.database.database import Database
from restante.database.paging import Page, PageRequest
from restante.identity import api_keys
from restante.identity.api_keys import NAME_LENGTH_MAX, ApiKey
from restante.identity.callers import ApiKeyCaller
from restante.identity.grants import Area, Grants, Role
from restante.identity.people import users
from restante.updates.response_format import LIST_QUERY, RESPONSE_FORMAT, list_info, list_response
from restante.web.paging import page_request_of
from restante.web.request import ApiRequest
from restante.web.response import ApiResponse
from restante.web.routes import Access, Route, RouteGroup

LIFETIME_SECONDS_MAX = 10 * 365 * 86_400

_EXAMPLE = {"name": "installer", "role": "viewer", "expires_in_seconds": 2_592_000}

ShortText = Annotated[str, Meta(max_length=100)]


class ApiKeyPermission(msgspec.Struct):
    """A permission of the certificate product. Its scripts send them; here the role decides."""

    obtype: ShortText
    obid: ShortText | Annotated[int, Meta(ge=-INT64_MAX, le=INT64_MAX)]
    actions: Annotated[list[ShortText], Meta(max_length=100)]


class ApiKeyRequest(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    name: Annotated[str, Meta(min_length=1, max_length=NAME_LENGTH_MAX)]
    role: Literal["viewer", "operator", "approver", "admin"] | None = None
    expires_in_seconds: Annotated[int, Meta(ge=1, le=LIFETIME_SECONDS_MAX)] | None = None
    permissions: Annotated[list[ApiKeyPermission], Meta(max_length=100)] | None = None


class ApiKeyView(msgspec.Struct, kw_only=True):
    """A key without its secret."""

    id: int
    user_id: int
    name: str
    role: str
    created_at: Timestamp
    expires_at: Timestamp | None
    revoked_at: Timestamp | None


class CreatedApiKey(ApiKeyView, kw_only=True):
    """A new key: `token` is shown this once."""

    token: str
    expires_in_seconds: int | None


class ApiKeyRoutes:
    def __init__(self, database: Database) -> None:
        self._database = database

    def routes(self) -> list[Route]:
        group = RouteGroup(
            "API keys", RESPONSE_FORMAT, prefix="/apiv1/users/{user_id}/apikeys", errors=(404,), area=Area.updates
        )
        return [
            group.post(
                "", self.create, Access.operate, "Create an API key for the user's own resources.", examples=(_EXAMPLE,)
            ),
            group.get(
                "",
                self.list_page,
                Access.read,
                "List the user's API keys.",
                query=LIST_QUERY,
                responses=(list_info(ApiKeyView),),
            ),
            group.delete("/{apikey_id}", self.revoke, Access.operate, "Revoke the API key.", status=204),
        ]

    async def create(self, request: ApiRequest, body: ApiKeyRequest) -> CreatedApiKey:
        """The key is in `token`, which is shown this once. `permissions` are accepted and not enforced."""
        caller = request.caller
        if isinstance(caller, ApiKeyCaller) and caller.user_id is not None:
            raise NotAllowed("an API key of a user cannot create API keys")
        user_id = request.path_id("user_id")
        key, token = await self._database.write(_create, user_id, request.grants, body, request.actor)
        view = msgspec.structs.asdict(_view(key))
        return CreatedApiKey(**view, token=token, expires_in_seconds=body.expires_in_seconds)

    async def list_page(self, request: ApiRequest) -> ApiResponse:
        page = await self._database.read(_page, request.path_id("user_id"), page_request_of(request))
        return list_response(request, page)

    async def revoke(self, request: ApiRequest) -> None:
        """Revoking a key again changes nothing."""
        await self._database.write(_revoke, request.path_id("user_id"), request.path_id("apikey_id"), request.actor)


def _create(conn: Connection, user_id: int, caller: Grants, body: ApiKeyRequest, actor: str) -> tuple[ApiKey, str]:
    """Create a key with the grants that both the caller and the user have, at most with the requested role."""
    common = caller.within(users.get(conn, user_id).grants)
    role = Role.viewer if common is None else common.role
    if body.role is not None:
        role = Role[body.role]
    if common is None or role > common.role:
        highest = "none" if common is None else common.role.name
        raise NotAllowed(f"the highest role that you can give this key is {highest}")
    grants = common.within(Grants.everywhere(role)) or common
    key_id, token = api_keys.create(conn, body.name, grants, user_id, body.expires_in_seconds, actor)
    return api_keys.get(conn, key_id, user_id), token


def _page(conn: Connection, user_id: int, window: PageRequest) -> Page[ApiKeyView]:
    users.check_exists(conn, user_id)
    page = api_keys.list_of_user(conn, user_id, window)
    return Page([_view(key) for key in page.items], page.next)


def _revoke(conn: Connection, user_id: int, key_id: int, actor: str) -> None:
    api_keys.get(conn, key_id, user_id)
    api_keys.revoke(conn, key_id, actor)


def _view(key: ApiKey) -> ApiKeyView:
    assert key.user_id is not None  # noqa: S101 — these are keys of users
    return ApiKeyView(
        id=key.id,
        user_id=key.user_id,
        name=key.name,
        role=key.role.name,
        created_at=iso_precise(key.created_at),
        expires_at=iso_precise(key.expires_at),
        revoked_at=iso_precise(key.revoked_at),
    )
