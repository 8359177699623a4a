"""Tags: short words on devices, collectors, miners and clients, by which operators find and group them.

A tag is added and removed by itself; a resource has a bounded number of them. This module does not know the resources:
the caller checks that the resource exists and that its own grants include it.
"""

import re
from collections.abc import Iterable, Sequence
from typing import Literal

import msgspec

from restante.core.errors import BadInput, Conflict
from restante.database.connection import Connection
from restante.database.queries import queries_beside

SQL = queries_beside(__file__)

TAGS_MAX = 32
TAG_PATTERN = "[a-z0-9][a-z0-9._:=-]{0,62}"
EXPECTED_TAG = "1 to 63 characters of a–z, 0–9 and . _ : = -, the first a letter or a digit"

_TAG = re.compile(TAG_PATTERN, re.ASCII)

Kind = Literal["device", "collector", "miner", "client"]


class TagList(msgspec.Struct, frozen=True):
    """All tags of a resource, in alphabetical order."""

    tags: list[str]


def check_tag(tag: str, field: str = "tag") -> str:
    if _TAG.fullmatch(tag) is None:
        raise BadInput(field, EXPECTED_TAG)
    return tag


def add(conn: Connection, kind: Kind, resource_id: int, tag: str) -> bool:
    """Add the tag; whether the resource did not have it. Conflict if the resource has too many tags."""
    conn.lock("tags", kind, resource_id)
    present = tags_of(conn, kind, resource_id)
    if tag in present:
        return False
    if len(present) >= TAGS_MAX:
        raise Conflict(f"a {kind} has at most {TAGS_MAX} tags")
    conn.run(SQL.add_tag, kind=kind, resource_id=resource_id, tag=check_tag(tag))
    return True


def remove(conn: Connection, kind: Kind, resource_id: int, tag: str) -> bool:
    """Remove the tag; whether the resource had it."""
    return conn.run(SQL.remove_tag, kind=kind, resource_id=resource_id, tag=check_tag(tag)) > 0


def tags_of(conn: Connection, kind: Kind, resource_id: int) -> list[str]:
    return tags_of_all(conn, kind, [resource_id])[resource_id]


def tags_of_all(conn: Connection, kind: Kind, resource_ids: Sequence[int]) -> dict[int, list[str]]:
    """The tags of each of these resources."""
    found: dict[int, list[str]] = {resource_id: [] for resource_id in resource_ids}
    rows = conn.values(SQL.tags_of, kind=kind, resource_ids=_encode(resource_ids)) if resource_ids else []
    for resource_id, tag in rows:
        found[resource_id].append(tag)
    for tags in found.values():
        tags.sort()
    return found


def _encode(ids: Iterable[int]) -> str:
    return msgspec.json.encode(list(ids)).decode()
