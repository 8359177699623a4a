"""The names of sites, zones and miners by their ids, for pages that show them beside the ids.

Checks no grants: the ids come from what the caller may see.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

import msgspec

from restante.database.connection import Connection
from restante.database.queries import Query, queries_beside

SQL = queries_beside(__file__)


class Placed(Protocol):
    """Something at a site, such as a command. `miner_id` None: for all miners there."""

    @property
    def site_id(self) -> int: ...

    @property
    def zone_id(self) -> int: ...

    @property
    def miner_id(self) -> int | None: ...


@dataclass(frozen=True, slots=True)
class PlaceNames:
    """A miner that no operator has registered has no name."""

    sites: dict[int, str]
    zones: dict[int, str]
    miners: dict[int, str]


def names_of(conn: Connection, placed: Sequence[Placed]) -> PlaceNames:
    """The names of where these are."""
    return PlaceNames(
        _names(conn, SQL.sites, {each.site_id for each in placed}),
        _names(conn, SQL.zones, {each.zone_id for each in placed}),
        miner_names(conn, {each.miner_id for each in placed if each.miner_id is not None}),
    )


def miner_names(conn: Connection, miner_ids: Iterable[int]) -> dict[int, str]:
    return _names(conn, SQL.miners, miner_ids)


def _names(conn: Connection, query: Query, ids: Iterable[int]) -> dict[int, str]:
    return {row["id"]: row["name"] for row in conn.all(query, ids=msgspec.json.encode(sorted(ids)).decode())}
