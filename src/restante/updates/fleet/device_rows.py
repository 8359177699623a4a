"""A device as lists and exports of the fleet show it: its description, tags, install config and last poll."""

from collections.abc import Sequence
from typing import Literal

import msgspec

from restante.core.iso_time import Timestamp, iso_precise
from restante.database.connection import Connection, Row
from restante.database.queries import queries_beside
from restante.identity import tags

SQL = queries_beside(__file__)

ConfigState = Literal["none", "behind", "fetched", "applied", "failed"]


class DeviceRow(msgspec.Struct, frozen=True, kw_only=True):
    """A device in a list of the fleet; times are UTC. `config_*`: versions of its install config: the current one, the
    one that it fetched last, and the newest that it reported as applied or as failed."""

    id: int
    user_id: int
    device_public_id: str
    name: str
    status: Literal["active", "revoked"]
    platform: str
    model: str
    app_version: str
    agent_version: str | None
    tags: list[str]
    created_at: Timestamp
    revoked_at: Timestamp | None
    last_seen_at: Timestamp | None
    is_overdue: bool
    overdue_at: Timestamp | None
    config_state: ConfigState
    config_wanted: int | None
    config_fetched: int | None
    config_applied: int | None
    config_failed: int | None
    certificate_expires_at: Timestamp | None


def rows_of(conn: Connection, device_ids: Sequence[int]) -> list[DeviceRow]:
    """These devices, in this order; without those that do not exist."""
    if not device_ids:
        return []
    found = {row["id"]: row for row in conn.all(SQL.devices, ids=msgspec.json.encode(list(device_ids)).decode())}
    tagged = tags.tags_of_all(conn, "device", device_ids)
    return [_row(found[each], tagged[each], conn.now_ms) for each in device_ids if each in found]


def _row(row: Row, device_tags: list[str], now_ms: int) -> DeviceRow:
    is_active = row["revoked_at"] is None
    overdue_at = row["overdue_at"] if is_active else None
    return DeviceRow(
        id=row["id"],
        user_id=row["user_id"],
        device_public_id=row["device_public_id"],
        name=row["name"],
        status="active" if is_active else "revoked",
        platform=row["platform"],
        model=row["model"],
        app_version=row["app_version"],
        agent_version=row["agent_version"],
        tags=device_tags,
        created_at=iso_precise(row["created_at"]),
        revoked_at=iso_precise(row["revoked_at"] or None),
        last_seen_at=iso_precise(row["last_seen_at"] or None),
        is_overdue=overdue_at is not None and overdue_at < now_ms,
        overdue_at=iso_precise(overdue_at or None),
        config_state=row["state"] or "none",
        config_wanted=row["version"],
        config_fetched=row["fetched_version"] or None,
        config_applied=row["applied_version"] or None,
        config_failed=row["failed_version"] or None,
        certificate_expires_at=iso_precise(row["certificate_expires_at"] or None),
    )
