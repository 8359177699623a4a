"""Groups: saved filters of devices with a name. A device is in a group for as long as the filter matches it.

A group of a user selects among that user's devices only. A group of the fleet (without a user) is for callers whose
grants include all users. A group names no other group, so that the meaning of a group never depends on another one.
Every change is in the audit trail of access.
"""

import re
from typing import Any

import msgspec

from restante.core.decoding import DIGITS, INT64_MAX, suggestion
from restante.core.errors import BadInput, Conflict, NotFound
from restante.core.iso_time import Timestamp, iso_precise
from restante.database.connection import Connection, Row
from restante.database.paging import Page, PageRequest, page_of
from restante.database.queries import queries_beside
from restante.identity import access_audit
from restante.identity.grants import ALL_IDS, AllowedIds
from restante.identity.people import users as people
from restante.updates.fleet.device_filter import DeviceFilter, parse_object

SQL = queries_beside(__file__)

GROUPS_MAX = 1000
NAME_PATTERN = "[A-Za-z][A-Za-z0-9._ -]{0,62}"
EXPECTED_NAME = "1 to 63 letters, digits, spaces and . _ -, the first a letter"
FLEET = 0

_NAME = re.compile(NAME_PATTERN, re.ASCII)


class Group(msgspec.Struct, frozen=True):
    """A saved filter. `user_id` None: a group of the whole fleet. Times are UTC."""

    id: int
    name: str
    user_id: int | None
    filter: DeviceFilter
    created_at: Timestamp
    updated_at: Timestamp
    updated_by: str


def create(
    conn: Connection, name: str, user_id: int | None, saved: DeviceFilter, actor: str, users: AllowedIds = ALL_IDS
) -> Group:
    _check(name, saved)
    owner = _check_owner(conn, user_id, users)
    conn.lock("groups", owner)
    if conn.one(SQL.group_named, user_id=owner, name=name) is not None:
        raise Conflict(f"there is a group {name!r} already")
    counted = conn.one(SQL.count_groups, user_id=owner)
    if counted is not None and counted["count"] >= GROUPS_MAX:
        raise Conflict(f"there are {GROUPS_MAX} groups already, which is the most")
    row = conn.one(SQL.insert_group, user_id=owner, name=name, filter=_encoded(saved), now_ms=conn.now_ms, actor=actor)
    group = _group(_existing(row))
    _record(conn, actor, "group.created", group)
    return group


def update(
    conn: Connection, group_id: int, name: str | None, saved: DeviceFilter | None, actor: str, users: AllowedIds
) -> Group:
    """Change the name, the filter or both."""
    known = _locked(conn, group_id, users)
    name, saved = name or known.name, known.filter if saved is None else saved
    _check(name, saved)
    other = conn.one(SQL.group_named, user_id=known.user_id or FLEET, name=name)
    if other is not None and other["id"] != group_id:
        raise Conflict(f"there is a group {name!r} already")
    row = conn.one(
        SQL.update_group, group_id=group_id, name=name, filter=_encoded(saved), now_ms=conn.now_ms, actor=actor
    )
    group = _group(_existing(row))
    _record(conn, actor, "group.changed", group)
    return group


def delete(conn: Connection, group_id: int, actor: str, users: AllowedIds) -> None:
    group = _locked(conn, group_id, users)
    conn.run(SQL.delete_group, group_id=group_id)
    _record(conn, actor, "group.deleted", group)


def _locked(conn: Connection, group_id: int, users: AllowedIds) -> Group:
    """The group as it is when no other operator changes it any more."""
    conn.lock("groups", get(conn, group_id, users).user_id or FLEET)
    return get(conn, group_id, users)


def get(conn: Connection, group_id: int, users: AllowedIds = ALL_IDS) -> Group:
    """The group; NotFound if it is missing, or belongs to a user outside the caller's grants."""
    row = conn.one(SQL.group, group_id=group_id)
    if row is None or not _is_open(row["user_id"], users):
        raise NotFound("there is no such group")
    return _group(row)


def list_page(conn: Connection, page: PageRequest, users: AllowedIds = ALL_IDS) -> Page[Group]:
    if users.ids is None:
        rows = conn.all(SQL.groups, after=page.after, limit=page.limit + 1)
    else:
        rows = conn.all(SQL.groups_of_users, users=users.as_json(), after=page.after, limit=page.limit + 1)
    return page_of(rows, page, "id", _group)


def resolve(conn: Connection, wanted: DeviceFilter, users: AllowedIds = ALL_IDS) -> list[DeviceFilter]:
    """The filters of `wanted`: itself and, if it names a group, the filter of the group. All must match."""
    if wanted.group is None:
        return [wanted]
    group = _named(conn, wanted.group, users)
    own = msgspec.structs.replace(wanted, group=None)
    of_user = [] if group.user_id is None else [DeviceFilter(user_id=group.user_id)]
    return [own, group.filter, *of_user]


def _named(conn: Connection, name: str, users: AllowedIds) -> Group:
    """The group with this name or id among those that are open to the caller; BadInput if there is not exactly one."""
    if DIGITS.fullmatch(name):
        row = conn.one(SQL.group, group_id=int(name)) if len(name) < len(str(INT64_MAX)) else None
        found = [] if row is None or not _is_open(row["user_id"], users) else [row]
    elif users.ids is None:
        found = conn.all(SQL.groups_named, name=name)
    else:
        rows = [conn.one(SQL.group_named, user_id=user_id, name=name) for user_id in sorted(users.ids, key=int)]
        found = [row for row in rows if row is not None]
    if len(found) == 1:
        return _group(found[0])
    if found:
        ids = ", ".join(str(row["id"]) for row in found)
        raise BadInput("group", f"the id of one group: the groups {ids} have this name")
    known = [group.name for group in list_page(conn, PageRequest(GROUPS_MAX, 0), users).items]
    raise BadInput("group", f"the name or the id of a group{suggestion(name, known)}")


def _check(name: str, saved: DeviceFilter) -> None:
    if _NAME.fullmatch(name) is None:
        raise BadInput("name", EXPECTED_NAME)
    if saved.group is not None:
        raise BadInput("filter.group", "no group: a group cannot name another one")
    if saved.is_empty:
        raise BadInput("filter", "at least one field: a group is not for all devices")


def _check_owner(conn: Connection, user_id: int | None, users: AllowedIds) -> int:
    """The owner as it is stored. A caller who may use one user's devices only makes groups of that user."""
    if user_id is None and users.only is not None:
        user_id = int(users.only)
    if user_id is None:
        if users.ids is not None:
            raise BadInput("user_id", "one of the users that your grants name")
        return FLEET
    if user_id not in users:
        raise BadInput("user_id", "a user that your grants include")
    people.check_exists(conn, user_id)
    return user_id


def _is_open(owner: int, users: AllowedIds) -> bool:
    return users.ids is None or owner in users


def _record(conn: Connection, actor: str, event: str, group: Group) -> None:
    detail: dict[str, Any] = {"group_id": group.id, "name": group.name, "user_id": group.user_id}
    access_audit.record_other(conn, actor, event, detail | {"filter": msgspec.to_builtins(group.filter)})


def _encoded(saved: DeviceFilter) -> str:
    return msgspec.json.encode(saved).decode()


def _existing(row: Row | None) -> Row:
    if row is None:
        raise NotFound("there is no such group")
    return row


def _group(row: Row) -> Group:
    return Group(
        row["id"],
        row["name"],
        row["user_id"] or None,
        parse_object(msgspec.json.decode(row["filter"])),
        iso_precise(row["created_at"]),
        iso_precise(row["updated_at"]),
        row["updated_by"],
    )
