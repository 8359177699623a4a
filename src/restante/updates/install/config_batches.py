"""Install configs of many devices in one transaction: the rules of `install_configs.py`, with fewer statements.

Each device gets its next version, a row in its history and a signal, all in this transaction. A device that is revoked,
or whose owner does not own a certificate or authority that an item names, is refused alone, before anything is changed.
"""

import hashlib
from base64 import b64encode
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from restante.core.errors import RestanteError
from restante.database.connection import Connection, Row
from restante.database.queries import queries_beside
from restante.delivery.log.signals import EmitAll, Signal
from restante.updates import signal_types
from restante.updates.install.config_patch import ConfigPatch, patched
from restante.updates.install.install_configs import check_owner
from restante.updates.install.install_items import CheckedInstalls, checked_installs

SQL = queries_beside(__file__)

UNCHANGED = "its config has this content already"


@dataclass(frozen=True, slots=True)
class Content:
    """The content of a version. `hash` covers the stored text."""

    checked: CheckedInstalls
    after_update_script: str | None

    @property
    def text(self) -> str:
        return self.checked.canonical_json.decode()

    @property
    def hash(self) -> bytes:
        return hashlib.sha256(self.checked.canonical_json).digest()


@dataclass(frozen=True, slots=True)
class ManyResult:
    """The new version of each device that got one, the reason for each that was refused, and those that had it."""

    versions: Mapping[int, int]
    refused: Mapping[int, str]
    unchanged: Sequence[int]


class _NoConfig(RestanteError):
    """The device has no install config."""


def put_many(
    conn: Connection, emit_all: EmitAll, device_ids: Sequence[int], content: Content, actor: str, note: str | None
) -> ManyResult:
    """Store the content as the next version of each device."""
    return _store_many(conn, emit_all, device_ids, lambda _row: content, actor, note)


def patch_many(
    conn: Connection, emit_all: EmitAll, device_ids: Sequence[int], patch: ConfigPatch, actor: str, note: str | None
) -> ManyResult:
    """Store the patched content of each device as its next version. A device without a config is refused."""
    cache: dict[tuple[bytes, str | None], Content | RestanteError] = {}

    def content_of(row: Row) -> Content:
        if row["version"] is None:
            raise _NoConfig()
        key = (bytes(row["installs_hash"]), row["after_update_script"])
        if key not in cache:
            cache[key] = _patched_content(patch, row)
        found = cache[key]
        if isinstance(found, RestanteError):
            raise found
        return found

    return _store_many(conn, emit_all, device_ids, content_of, actor, note)


def restore_many(
    conn: Connection, emit_all: EmitAll, versions: Mapping[int, int], actor: str, note: str | None
) -> ManyResult:
    """Give each device the content that it had before this version, unless its config was changed since.

    A device that had no config before gets one without items: no signal can remove the config of a device.
    """
    found = {row["user_device_id"]: row for row in conn.all(SQL.before_current, ids=_encoded(list(versions)))}

    def content_of(row: Row) -> Content:
        if row["version"] != versions[row["id"]]:
            raise RestanteError(f"its config was changed since: it is at version {row['version']}")
        before = found.get(row["id"])
        if before is None:
            return Content(checked_installs([]), None)
        # As it was stored, also if it would be refused today.
        return Content(CheckedInstalls(before["installs_json"].encode(), []), before["after_update_script"])

    return _store_many(conn, emit_all, list(versions), content_of, actor, note)


def _patched_content(patch: ConfigPatch, row: Row) -> Content | RestanteError:
    try:
        items = msgspec.json.decode(row["installs_json"], type=list[dict[str, Any]])
        installs, script = patched(patch, items, row["after_update_script"])
        return Content(checked_installs(installs), script)
    except RestanteError as error:
        return error


def _store_many(
    conn: Connection,
    emit_all: EmitAll,
    device_ids: Sequence[int],
    content_of: Callable[[Row], Content],
    actor: str,
    note: str | None,
) -> ManyResult:
    conn.lock("device", *sorted(device_ids))
    refused: dict[int, str] = {}
    unchanged: list[int] = []
    groups: dict[tuple[bytes, str | None], tuple[Content, list[int]]] = {}
    owners: dict[tuple[int, bytes], RestanteError | None] = {}
    for row in conn.all(SQL.devices, ids=_encoded(device_ids)):
        try:
            content = _allowed_content(conn, row, content_of, owners)
        except RestanteError as error:
            refused[row["id"]] = error.message
            continue
        key = (content.hash, content.after_update_script)
        if row["version"] is not None and (bytes(row["installs_hash"] or b""), row["after_update_script"]) == key:
            unchanged.append(row["id"])
        else:
            groups.setdefault(key, (content, []))[1].append(row["id"])
    versions: dict[int, int] = {}
    for content, ids in groups.values():
        versions |= _store(conn, emit_all, ids, content, actor, note)
    return ManyResult(versions, refused, unchanged)


def _allowed_content(
    conn: Connection,
    row: Row,
    content_of: Callable[[Row], Content],
    owners: dict[tuple[int, bytes], RestanteError | None],
) -> Content:
    if row["revoked_at"] is not None:
        raise RestanteError("the device is revoked")
    content = content_of(row)
    key = (row["user_id"], content.hash)
    if content.checked.references and key not in owners:
        owners[key] = _owner_error(conn, row["user_id"], content)
    error = owners.get(key)
    if error is not None:
        raise error
    return content


def _owner_error(conn: Connection, user_id: int, content: Content) -> RestanteError | None:
    try:
        for reference in content.checked.references:
            check_owner(conn, user_id, reference)
    except RestanteError as error:
        return error
    return None


def _store(
    conn: Connection, emit_all: EmitAll, ids: list[int], content: Content, actor: str, note: str | None
) -> dict[int, int]:
    rows = conn.all(
        SQL.store_many,
        ids=_encoded(ids),
        installs_json=content.text,
        installs_hash=content.hash,
        after_update_script=content.after_update_script,
        actor=actor,
        now_ms=conn.now_ms,
    )
    conn.run(SQL.insert_history_many, ids=_encoded(ids), change_note=note)
    hash_b64 = b64encode(content.hash).decode()
    signals = {}
    for row in sorted(rows, key=lambda row: int(row["user_device_id"])):
        ref = {"config_id": row["id"], "version": row["version"], "installs_hash_b64": hash_b64}
        signals[row["user_device_id"]] = Signal(signal_types.INSTALL_UPDATED, conn.now_ms, ref)
    emit_all(conn, signals)
    return {row["user_device_id"]: row["version"] for row in rows}


def _encoded(ids: Sequence[int]) -> str:
    return msgspec.json.encode(list(ids)).decode()
