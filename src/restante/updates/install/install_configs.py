"""A device's install config: the items that it must install, in versions.

Every change, also a restore, creates the next version, stores it in the history and sends the device a signal, all in
one transaction. What the device does with it is stored beside it: the version that it fetched last, and the newest that
it reported as applied or failed. The stored text is the canonical JSON of the items, and the hash covers exactly those
bytes, so that a device can compare the config it fetched with the signal. Nothing is ever removed from the history.
"""

import hashlib
from base64 import b64encode
from dataclasses import dataclass, replace
from typing import Any

import msgspec

from restante.core.errors import BadInput, Conflict, NotFound
from restante.core.iso_time import Timestamp, iso_precise
from restante.database.connection import Connection, Row
from restante.database.paging import Page, PageRequest, page_of
from restante.database.queries import queries_beside
from restante.delivery.log.signals import Emit, Signal
from restante.updates import signal_types
from restante.updates.devices.ownership import get_active_device, get_owned_device
from restante.updates.install.install_items import CheckedInstalls, ObjectReference

SQL = queries_beside(__file__)


class _Config(msgspec.Struct, kw_only=True):
    id: int
    user_device_id: int
    version: int
    installs: msgspec.Raw
    installs_json: str
    installs_hash: str | None
    after_update_script: str | None
    updated_by: str | None


class InstallConfig(_Config, kw_only=True):
    """The config for its device. The specification fixes its times: seconds since the epoch."""

    created_at: int
    updated_at: int


class InstallConfigView(_Config, kw_only=True):
    """The config for operators."""

    created_at: Timestamp
    updated_at: Timestamp


class ConfigVersion(msgspec.Struct, kw_only=True):
    """One version in the history, without its items: a page of items could be very large."""

    version: int
    installs_hash: str | None
    change_note: str | None
    changed_by: str
    created_at: Timestamp


class ConfigVersionDetail(ConfigVersion, kw_only=True):
    installs: msgspec.Raw
    after_update_script: str | None


@dataclass(frozen=True, slots=True)
class ConfigEdit:
    """A change of a device's config. `expected_version`: the version that the caller means to change; None: any."""

    user_id: int
    device_id: int
    actor: str
    change_note: str | None = None
    expected_version: int | None = None


def current(conn: Connection, device_id: int) -> InstallConfigView:
    row = conn.one(SQL.current, device_id=device_id)
    if row is None:
        raise NotFound("the device has no install config")
    return _view(row)


def fetched_by_device(conn: Connection, device_id: int) -> tuple[InstallConfig, bool]:
    """The current config for its device, and whether the device is known to have fetched this version."""
    row = conn.one(SQL.current, device_id=device_id)
    if row is None:
        raise NotFound("the device has no install config")
    times = {name: row[name] // 1000 for name in ("created_at", "updated_at")}
    return InstallConfig(**_fields(row), **times), row["fetched_version"] >= row["version"]


def mark_fetched(conn: Connection, device_id: int, version: int) -> None:
    """The device has fetched this version. Repeating it changes nothing."""
    conn.run(SQL.mark_fetched, device_id=device_id, version=version, now_ms=conn.now_ms)


def mark_outcome(conn: Connection, device_id: int, version: int, failure: str | None) -> None:
    """The device has reported that it applied this version, or how that failed. The last report of a version counts; a
    version that the server does not have changes nothing."""
    parameters = {"device_id": device_id, "version": version, "now_ms": conn.now_ms}
    if failure is None:
        conn.run(SQL.mark_applied, **parameters)
    else:
        conn.run(SQL.mark_failed, **parameters, failure=failure)


def current_of_user(conn: Connection, user_id: int, device_id: int) -> InstallConfigView:
    get_owned_device(conn, user_id, device_id)
    return current(conn, device_id)


def put(
    conn: Connection, emit: Emit, edit: ConfigEdit, checked: CheckedInstalls, after_update_script: str | None
) -> InstallConfigView:
    """Store the items as the device's next version."""
    _check_editable(conn, edit)
    for reference in checked.references:
        check_owner(conn, edit.user_id, reference)
    return _store(conn, emit, edit, checked.canonical_json.decode(), after_update_script)


def restore(conn: Connection, emit: Emit, edit: ConfigEdit, version: int) -> InstallConfigView:
    """Store an old version's content as the device's next version."""
    _check_editable(conn, edit)
    old = _version_row(conn, edit.device_id, version)
    noted = replace(edit, change_note=edit.change_note or f"restored version {version}")
    return _store(conn, emit, noted, old["installs_json"], old["after_update_script"])


def history(conn: Connection, user_id: int, device_id: int, window: PageRequest) -> Page[ConfigVersion]:
    get_owned_device(conn, user_id, device_id)
    rows = conn.all(SQL.history, device_id=device_id, after=window.after, limit=window.limit + 1)
    return page_of(rows, window, "version", _version)


def version_detail(conn: Connection, user_id: int, device_id: int, version: int) -> ConfigVersionDetail:
    get_owned_device(conn, user_id, device_id)
    row = _version_row(conn, device_id, version)
    return ConfigVersionDetail(
        **msgspec.structs.asdict(_version(row)),
        installs=msgspec.Raw(row["installs_json"].encode()),
        after_update_script=row["after_update_script"],
    )


def _store(
    conn: Connection, emit: Emit, edit: ConfigEdit, installs_json: str, after_update_script: str | None
) -> InstallConfigView:
    row = conn.one(
        SQL.store,
        device_id=edit.device_id,
        installs_json=installs_json,
        installs_hash=hashlib.sha256(installs_json.encode()).digest(),
        after_update_script=after_update_script,
        actor=edit.actor,
        now_ms=conn.now_ms,
    )
    assert row is not None  # noqa: S101 — an upsert with RETURNING always returns its row
    config = _view(row)
    conn.run(SQL.insert_history, config_id=config.id, change_note=edit.change_note)
    ref = {"config_id": config.id, "version": config.version, "installs_hash_b64": config.installs_hash}
    emit(conn, edit.device_id, Signal(signal_types.INSTALL_UPDATED, conn.now_ms, ref))
    return config


def _check_editable(conn: Connection, edit: ConfigEdit) -> None:
    """Check that the device is active and has the expected version; version 0 means that it has no config yet."""
    conn.lock("device", edit.device_id)
    get_active_device(conn, edit.user_id, edit.device_id)
    row = conn.one(SQL.current_version, device_id=edit.device_id)
    version = row["version"] if row else 0
    if edit.expected_version not in (None, version):
        raise Conflict(f"the install config is at version {version}, not {edit.expected_version}")


def check_owner(conn: Connection, user_id: int, reference: ObjectReference) -> None:
    """Raise BadInput if the certificate or authority that an item names is not the user's."""
    query = SQL.own_certificate if reference.ob_type == "cert" else SQL.own_authority
    if conn.one(query, user_id=user_id, ob_id=reference.ob_id) is None:
        raise BadInput(reference.field, f"the id of a {reference.ob_type} of this user")


def _version_row(conn: Connection, device_id: int, version: int) -> Row:
    row = conn.one(SQL.version, device_id=device_id, version=version)
    if row is None:
        raise NotFound("the install config has no such version")
    return row


def _view(row: Row) -> InstallConfigView:
    times = {name: iso_precise(row[name]) for name in ("created_at", "updated_at")}
    return InstallConfigView(**_fields(row), **times)


def _fields(row: Row) -> dict[str, Any]:
    same = ("id", "user_device_id", "version", "installs_json", "after_update_script", "updated_by")
    return {
        **{column: row[column] for column in same},
        "installs": msgspec.Raw(row["installs_json"].encode()),
        "installs_hash": _base64(row["installs_hash"]),
    }


def _version(row: Row) -> ConfigVersion:
    return ConfigVersion(
        version=row["version"],
        installs_hash=_base64(row["installs_hash"]),
        change_note=row["change_note"],
        changed_by=row["changed_by"],
        created_at=iso_precise(row["created_at"]),
    )


def _base64(blob: bytes | None) -> str | None:
    return None if blob is None else b64encode(blob).decode()
