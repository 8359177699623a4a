"""Changes of the inventory: sites, zones and miners are renamed, moved, retired and replaced. Nothing is deleted.

    rename                anything, at any time: commands and the audit trail refer to ids
    move a miner          to another zone or site, if it has no open command and, to another site, no rule names it
    retire a miner        if it has no open command and no rule names it
    replace a miner       a new miner takes its zone, and its place in rules; the old one is retired
    retire a zone, site   if it has no active miner, no active collector and no open command

A command is dispatched by the site and zone that it was created for. So a miner with an open command stays where it is:
otherwise a collector that does not reach it any more would get the command, or a machine would change its mode after it
was taken away.

Invariants: each change holds the lock of its sites, so no command or rule appears meanwhile. Each change adds a row to
the audit trail, a move to another site one to each.
"""

from typing import Any

import msgspec

from restante.commands.audit.audit_trail import AuditEntry, AuditTrail
from restante.commands.lifecycle.ordering import SITE_LOCK
from restante.commands.rules import rules
from restante.commands.sites import miners, sites
from restante.commands.sites.miners import Miner, MinerRequest
from restante.commands.sites.sites import Site, Zone
from restante.core.errors import BadInput, Conflict, NotFound
from restante.database.connection import Connection
from restante.database.queries import Query, queries_beside
from restante.identity.grants import ALL_IDS, AllowedIds

SQL = queries_beside(__file__)

NAMED_RULES_MAX = 5


def rename_site(conn: Connection, trail: AuditTrail, site_id: int, name: str, actor: str) -> Site:
    conn.lock(SITE_LOCK, site_id)
    site = sites.get(conn, site_id)
    if site.name != sites.checked_name(name):
        _rename(conn, SQL.rename_site, site_id, name, f"a site named {name} already exists")
        _record(conn, trail, site_id, actor, "site.renamed", {"from": site.name, "to": name})
    return sites.get(conn, site_id)


def rename_zone(
    conn: Connection, trail: AuditTrail, zone_id: int, name: str, actor: str, allowed: AllowedIds = ALL_IDS
) -> Zone:
    zone = _locked_zone(conn, zone_id, allowed)
    if zone.name != sites.checked_name(name):
        _rename(conn, SQL.rename_zone, zone_id, name, f"the site already has a zone named {name}")
        detail = {"zone_id": zone_id, "from": zone.name, "to": name}
        _record(conn, trail, zone.site_id, actor, "zone.renamed", detail)
    return sites.get_zone(conn, zone_id)


def retire_site(conn: Connection, trail: AuditTrail, site_id: int, actor: str) -> Site:
    """Retire the site with its zones. Retiring it again changes nothing."""
    conn.lock(SITE_LOCK, site_id)
    if sites.get(conn, site_id).retired_at is None:
        _refuse_in_use(conn, SQL.site_use, site_id, "site")
        conn.run(SQL.retire_zones, site_id=site_id, now_ms=conn.now_ms)
        conn.run(SQL.retire_site, id=site_id, now_ms=conn.now_ms)
        _record(conn, trail, site_id, actor, "site.retired", {})
    return sites.get(conn, site_id)


def retire_zone(conn: Connection, trail: AuditTrail, zone_id: int, actor: str, allowed: AllowedIds = ALL_IDS) -> Zone:
    """Retire the zone. Retiring it again changes nothing."""
    zone = _locked_zone(conn, zone_id, allowed)
    if zone.retired_at is None:
        if zone.is_default:
            raise Conflict("the default zone is retired with its site")
        _refuse_in_use(conn, SQL.zone_use, zone_id, "zone")
        conn.run(SQL.retire_zone, id=zone_id, now_ms=conn.now_ms)
        _record(conn, trail, zone.site_id, actor, "zone.retired", {"zone_id": zone_id})
    return sites.get_zone(conn, zone_id)


class MinerChange(msgspec.Struct, frozen=True):
    """None in a field: it stays as it is. With another site and no zone, the miner moves to the site's default zone."""

    name: str | None = None
    site_id: int | None = None
    zone_id: int | None = None


def change_miner(
    conn: Connection,
    trail: AuditTrail,
    miner_id: int,
    change: MinerChange,
    actor: str,
    allowed: AllowedIds = ALL_IDS,
) -> Miner:
    """Rename the miner, move it to another zone or site, or both."""
    miner = _locked_miner(conn, miner_id, allowed, change.site_id)
    if miner.retired_at is not None:
        raise Conflict("the miner is retired")
    name = miner.name if change.name is None else sites.checked_name(change.name)
    site_id, zone_id = _place(conn, miner, change, allowed)
    if name != miner.name:
        conn.run(SQL.rename_miner, id=miner_id, name=name)
        detail = {"miner_id": miner_id, "from": miner.name, "to": name}
        _record(conn, trail, site_id, actor, "miner.renamed", detail)
    if (site_id, zone_id) != (miner.site_id, miner.zone_id):
        _move(conn, trail, miner, site_id, zone_id, actor)
    return miners.get(conn, miner_id)


def retire_miner(
    conn: Connection, trail: AuditTrail, miner_id: int, actor: str, allowed: AllowedIds = ALL_IDS
) -> Miner:
    """Retire the miner: no command can be for it any more. Retiring it again changes nothing."""
    miner = _locked_miner(conn, miner_id, allowed)
    if miner.retired_at is None:
        _refuse_open_commands(conn, miner)
        _refuse_rules(conn, miner, "retired")
        _retire(conn, trail, miner, None, actor)
    return miners.get(conn, miner_id)


def replace_miner(
    conn: Connection,
    trail: AuditTrail,
    miner_id: int,
    name: str,
    new_id: int | None,
    actor: str,
    allowed: AllowedIds = ALL_IDS,
) -> Miner:
    """Add a miner in the place of this one, which is retired. Rules that name the old one name the new one."""
    miner = _locked_miner(conn, miner_id, allowed)
    if miner.retired_at is not None:
        raise Conflict("the miner is retired")
    _refuse_open_commands(conn, miner)
    new = miners.add(conn, trail, MinerRequest(miner.site_id, name, miner.zone_id, new_id), actor)
    for row in conn.all(SQL.rules_of_site, site_id=miner.site_id):
        named = _named_miners(row["miner_ids"])
        if miner_id in named:
            listed = msgspec.json.encode([new.id if each == miner_id else each for each in named]).decode()
            conn.run(SQL.set_rule_miners, rule_id=row["id"], miner_ids=listed, now_ms=conn.now_ms)
            detail = {"rule_id": row["id"], "replaced_miner": miner_id, "by": new.id}
            _record(conn, trail, miner.site_id, actor, "rule.miner_replaced", detail)
    _retire(conn, trail, miner, new.id, actor)
    return new


def _place(conn: Connection, miner: Miner, change: MinerChange, allowed: AllowedIds) -> tuple[int, int]:
    """The site and the zone where the miner shall be."""
    if change.site_id is None or change.site_id == miner.site_id:
        if change.zone_id is None or change.zone_id == miner.zone_id:
            return miner.site_id, miner.zone_id
        return miner.site_id, sites.require_zone(conn, miner.site_id, change.zone_id)
    if change.site_id not in allowed:
        raise BadInput("site_id", "the id of a site")
    site = sites.require_site(conn, change.site_id)
    if change.zone_id is None:
        return site.id, site.default_zone_id
    return site.id, sites.require_zone(conn, site.id, change.zone_id)


def _move(conn: Connection, trail: AuditTrail, miner: Miner, site_id: int, zone_id: int, actor: str) -> None:
    _refuse_open_commands(conn, miner)
    if site_id != miner.site_id:
        _refuse_rules(conn, miner, "moved")
    conn.run(SQL.move_miner, id=miner.id, site_id=site_id, zone_id=zone_id)
    detail = {
        "miner_id": miner.id,
        "from": {"site_id": miner.site_id, "zone_id": miner.zone_id},
        "to": {"site_id": site_id, "zone_id": zone_id},
    }
    for site in sorted({miner.site_id, site_id}):
        # Rules are evaluated for the miners of their site.
        rules.put_revision(conn, site)
        _record(conn, trail, site, actor, "miner.moved", detail)


def _retire(conn: Connection, trail: AuditTrail, miner: Miner, replaced_by: int | None, actor: str) -> None:
    conn.run(SQL.retire_miner, id=miner.id, replaced_by=replaced_by, now_ms=conn.now_ms)
    rules.put_revision(conn, miner.site_id)
    detail: dict[str, Any] = {"miner_id": miner.id}
    if replaced_by is not None:
        detail["replaced_by"] = replaced_by
    _record(conn, trail, miner.site_id, actor, "miner.retired", detail)


def _locked_zone(conn: Connection, zone_id: int, allowed: AllowedIds) -> Zone:
    zone = sites.get_zone(conn, zone_id)
    if zone.site_id not in allowed:
        raise NotFound("there is no such zone")
    conn.lock(SITE_LOCK, zone.site_id)
    # Zones do not move to another site.
    return sites.get_zone(conn, zone_id)


def _locked_miner(conn: Connection, miner_id: int, allowed: AllowedIds, other_site: int | None = None) -> Miner:
    """The miner, under the lock of its site and of the site that it shall move to."""
    site_id = miners.get(conn, miner_id, allowed).site_id
    conn.lock(SITE_LOCK, *{site_id, site_id if other_site is None else other_site})
    miner = miners.get(conn, miner_id, allowed)
    if miner.site_id != site_id:
        raise Conflict("the miner was moved at the same time")
    return miner


def _refuse_open_commands(conn: Connection, miner: Miner) -> None:
    row = conn.one(SQL.open_commands, miner_id=miner.id)
    if row is not None and row["count"]:
        raise Conflict(f"the miner has {row['count']} open commands: cancel them or wait for their end")


def _refuse_rules(conn: Connection, miner: Miner, verb: str) -> None:
    naming = [
        row["id"]
        for row in conn.all(SQL.rules_of_site, site_id=miner.site_id)
        if miner.id in _named_miners(row["miner_ids"])
    ]
    if naming:
        listed = ", ".join(str(rule_id) for rule_id in naming[:NAMED_RULES_MAX])
        raise Conflict(f"the miner cannot be {verb} while rules name it ({listed}): change them first")


def _refuse_in_use(conn: Connection, query: Query, id: int, what: str) -> None:
    row = conn.one(query, id=id)
    used = {} if row is None else {name: row[name] for name in ("miners", "collectors", "commands") if row[name]}
    if used:
        counts = ", ".join(f"{count} {name}" for name, count in used.items())
        raise Conflict(f"the {what} is in use: active miners, active collectors or open commands ({counts})")


def _rename(conn: Connection, query: Query, id: int, name: str, taken: str) -> None:
    if not conn.run(query, id=id, name=name):
        raise Conflict(taken)


def _named_miners(miner_ids: str | None) -> list[int]:
    return [] if miner_ids is None else msgspec.json.decode(miner_ids, type=list[int])


def _record(conn: Connection, trail: AuditTrail, site_id: int, actor: str, event: str, detail: dict[str, Any]) -> None:
    trail.record(conn, AuditEntry(site_id, actor, event, None, None, None, detail))
