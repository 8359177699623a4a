"""Which sites a caller's grants open: checks that a command, a rule or a collector belongs to one of them.

A resource of another site is refused with the error of a missing one, so that a caller cannot find out what exists.
Callers with access to every site cost no query. Nothing moves to another site, so the check may come before the
transaction of the change.
"""

from restante.commands.errors import CommandNotFound
from restante.core.errors import BadInput, NotFound
from restante.database.connection import Connection
from restante.database.database import Database
from restante.database.queries import Query, queries_beside
from restante.identity.grants import AllowedIds

SQL = queries_beside(__file__)


def check_site(allowed: AllowedIds, site_id: int) -> None:
    if site_id not in allowed:
        raise NotFound("there is no such site")


def check_body(allowed: AllowedIds, site_id: int, field: str = "site_id") -> None:
    """Check the site that the body of a request names."""
    if site_id not in allowed:
        raise BadInput(field, "the id of a site")


async def check_command(database: Database, allowed: AllowedIds, command_id: str) -> None:
    if not await _is_allowed(database, allowed, SQL.site_of_command, command_id):
        raise CommandNotFound()


async def check_rule(database: Database, allowed: AllowedIds, rule_id: int) -> None:
    if not await _is_allowed(database, allowed, SQL.site_of_rule, rule_id):
        raise NotFound("there is no such rule")


async def check_collector(database: Database, allowed: AllowedIds, device_id: int) -> None:
    if not await _is_allowed(database, allowed, SQL.site_of_collector, device_id):
        raise NotFound("there is no such collector")


def site_of_collector(conn: Connection, allowed: AllowedIds, device_id: int) -> int:
    """The site of the collector; NotFound if it is missing or outside the caller's grants."""
    site_id = _site_of(conn, SQL.site_of_collector, device_id)
    if site_id is None or site_id not in allowed:
        raise NotFound("there is no such collector")
    return site_id


def site_of_miner(conn: Connection, allowed: AllowedIds, miner_id: int) -> int:
    """The site of the miner; NotFound if it is missing or outside the caller's grants."""
    site_id = _site_of(conn, SQL.site_of_miner, miner_id)
    if site_id is None or site_id not in allowed:
        raise NotFound("there is no such miner")
    return site_id


def site_filter(allowed: AllowedIds, site_id: int | None) -> int | None:
    """The site that a list is filtered by: if one site alone is allowed, its index serves the list."""
    only = allowed.only
    return only if site_id is None and isinstance(only, int) else site_id


async def _is_allowed(database: Database, allowed: AllowedIds, query: Query, resource_id: int | str) -> bool:
    return allowed.are_all or await database.read(_site_of, query, resource_id) in allowed


def _site_of(conn: Connection, query: Query, resource_id: int | str) -> int | None:
    row = conn.one(query, id=resource_id)
    return None if row is None else int(row["site_id"])
