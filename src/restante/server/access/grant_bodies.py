"""Grants in requests and responses: `{"role": "operator", "scope": "commands:3"}`."""

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from restante.identity.administration import Administrator
from restante.identity.callers import ApiKeyCaller
from restante.identity.grants import EXPECTED_SCOPE, GRANTS_MAX, SCOPE_PATTERN, Grants, Role, checked_grants
from restante.web.request import ApiRequest

SCOPE_CHARACTERS_MAX = 140


class GrantBody(msgspec.Struct, forbid_unknown_fields=True):
    """A role, and where it counts."""

    role: Literal["viewer", "operator", "approver", "admin"]
    scope: Annotated[
        str,
        Meta(
            max_length=SCOPE_CHARACTERS_MAX,
            description=EXPECTED_SCOPE,
            extra_json_schema={"pattern": SCOPE_PATTERN},
        ),
    ] = "all"


class GrantView(msgspec.Struct):
    role: str
    scope: str


GrantList = Annotated[list[GrantBody], Meta(min_length=1, max_length=GRANTS_MAX)]


class GrantsBody(msgspec.Struct, forbid_unknown_fields=True):
    """The new grants, in place of all former ones."""

    grants: GrantList


def grants_of(items: list[GrantBody]) -> Grants:
    return checked_grants((Role[item.role], item.scope) for item in items)


def grant_views(grants: Grants) -> list[GrantView]:
    return [GrantView(grant.role.name, str(grant.scope)) for grant in grants.items]


def administrator_of(request: ApiRequest) -> Administrator:
    caller = request.caller
    user_id = caller.made_by if isinstance(caller, ApiKeyCaller) else getattr(caller, "user_id", None)
    return Administrator(request.actor, request.grants, user_id)
