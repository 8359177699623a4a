"""Device codes: let a person approve a device that has no keyboard (as in RFC 8628).

                 ┌─▶ denied ────▶ access_denied
    pending ─────┤
    │            └─▶ approved ──▶ ready, once ──▶ consumed: expired
    └─▶ time is over: expired

The device polls with the device code, which only it knows. The person types the user code, which is short and useless
to anyone who is not signed in. A poll that comes sooner than the agreed interval gets `slow_down` and changes nothing.

A code has one purpose: it approves a device, or it signs a person in at a command line. A poll for another purpose does
not find it.

Anyone may start a code, so rows are bounded: in number, by address and in total, and in size. A row is deleted when its
code was used or has expired. The MAC of a code without a row shows whether the server made it: then it is `expired`.
"""

import base64
import hmac
import json
import secrets
from dataclasses import dataclass
from enum import Enum, StrEnum

from restante.core.address_group import address_group
from restante.core.errors import NotFound, TooManyRequests, Unavailable
from restante.core.keyed_hash import KeyedHash
from restante.database.connection import Connection, Row
from restante.database.queries import queries_beside
from restante.identity import secret_tokens
from restante.identity.devices import device_owners
from restante.identity.master_key import MasterKey

SQL = queries_beside(__file__)

# Consonants only: none looks like a digit or another letter, and they form no words.
USER_CODE_LETTERS = "BCDFGHJKLMNPQRSTVWXZ"
USER_CODE_LENGTH = 8
_USER_CODE_TRIES = 5
_RANDOM_BYTES = 24
_MAC_BYTES = 12
# What a person is shown before the decision; nothing else needs it.
SCOPES_LENGTH_MAX = 200
USER_AGENT_LENGTH_MAX = 120
DELETED_AT_ONCE = 1000
RETRY_SECONDS_MAX = 60


class DeviceCodeKey:
    """Makes device codes, and recognises those that it made."""

    def __init__(self, master: MasterKey) -> None:
        self._hash = KeyedHash(master.derive_key("device codes"))

    def make(self) -> str:
        random = secrets.token_bytes(_RANDOM_BYTES)
        return base64.urlsafe_b64encode(random + self._hash.digest(random)[:_MAC_BYTES]).decode()

    def has_made(self, code: str) -> bool:
        try:
            raw = base64.b64decode(code.encode("ascii"), altchars=b"-_", validate=True)
        except ValueError:
            return False
        random, mac = raw[:_RANDOM_BYTES], raw[_RANDOM_BYTES:]
        return hmac.compare_digest(self._hash.digest(random)[:_MAC_BYTES], mac)


class Purpose(StrEnum):
    device = "device"
    command_line = "command line"


@dataclass(frozen=True, slots=True)
class DeviceCodeLimits:
    """The most codes that may be waiting, for one address and for all."""

    per_address: int
    total: int


@dataclass(frozen=True, slots=True)
class IssuedCodes:
    device_code: str
    user_code: str


@dataclass(frozen=True, slots=True)
class PendingApproval:
    """The facts shown to a person who may approve a device or a command line."""

    user_code: str
    purpose: Purpose
    scopes: list[str]
    address: str
    user_agent: str
    expires_at: int


class DeviceCodeStatus(Enum):
    """The result of a poll without an approval. The names are those of the wire format."""

    authorization_pending = "authorization_pending"
    slow_down = "slow_down"
    access_denied = "access_denied"
    expired = "expired"


@dataclass(frozen=True, slots=True)
class Approved:
    user_id: int


@dataclass(frozen=True, slots=True)
class ForeignDevice:
    """The poll named a device that is revoked or does not belong to the person who approved.

    Returned, not raised: the time of the poll must be committed.
    """


def start(
    conn: Connection,
    key: DeviceCodeKey,
    limits: DeviceCodeLimits,
    *,
    scopes: list[str],
    interval_seconds: int,
    expires_in: int,
    address: str,
    user_agent: str,
    purpose: Purpose = Purpose.device,
) -> IssuedCodes:
    group = address_group(address)
    _check_room(conn, group, limits)
    device_code = key.make()
    for _ in range(_USER_CODE_TRIES):
        user_code = _new_user_code()
        row = conn.one(
            SQL.insert_code,
            device_code_hash=secret_tokens.digest(device_code),
            user_code=user_code,
            purpose=purpose,
            scopes=json.dumps(_shortened(scopes), ensure_ascii=False),
            address=address,
            address_group=group,
            user_agent=user_agent[:USER_AGENT_LENGTH_MAX],
            interval_seconds=interval_seconds,
            now_ms=conn.now_ms,
            expires_at=conn.now_ms + expires_in * 1000,
        )
        if row is not None:
            return IssuedCodes(device_code, user_code)
    raise Unavailable("too many devices are waiting for approval", retry_after_seconds=60)


def find_pending(conn: Connection, user_code: str) -> PendingApproval:
    """The pending approval under a code that a person typed; raises NotFound if there is none."""
    row = conn.one(SQL.waiting_code, user_code=normalised(user_code), now_ms=conn.now_ms)
    if row is None:
        raise NotFound("no device waits under this code; it may have expired")
    scopes = json.loads(row["scopes"])
    return PendingApproval(
        row["user_code"], Purpose(row["purpose"]), scopes, row["address"], row["user_agent"], row["expires_at"]
    )


def decide(conn: Connection, user_code: str, user_id: int, *, approve: bool, purpose: Purpose = Purpose.device) -> None:
    """Store the person's decision; raises NotFound if no approval is pending under the code."""
    status = "approved" if approve else "denied"
    code = normalised(user_code)
    values = {"user_code": code, "purpose": purpose, "status": status, "user_id": user_id}
    if not conn.run(SQL.decide, **values, now_ms=conn.now_ms):
        raise NotFound("no device waits under this code; it may have expired")


def poll(
    conn: Connection,
    key: DeviceCodeKey,
    device_code: str,
    device_id: int | None,
    purpose: Purpose = Purpose.device,
) -> DeviceCodeStatus | Approved | ForeignDevice:
    """The status of the code. Approved is returned once: it consumes the code."""
    row = conn.one(SQL.find_code, device_code_hash=secret_tokens.digest(device_code), purpose=purpose)
    if row is None:
        if key.has_made(device_code):
            return DeviceCodeStatus.expired
        raise NotFound("the device_code is not known")
    if row["status"] == "consumed" or row["expires_at"] <= conn.now_ms:
        return DeviceCodeStatus.expired
    if _is_too_soon(row, conn.now_ms):
        return DeviceCodeStatus.slow_down
    conn.run(SQL.note_poll, code_id=row["id"], now_ms=conn.now_ms)
    if row["status"] == "approved":
        return _consume(conn, row, device_id)
    return DeviceCodeStatus.access_denied if row["status"] == "denied" else DeviceCodeStatus.authorization_pending


def normalised(user_code: str) -> str:
    """The code in its stored form: case, dashes and spaces do not matter."""
    letters = "".join(character for character in user_code.upper() if character.isalnum())
    return f"{letters[:4]}-{letters[4:]}"


def delete_expired(conn: Connection) -> int:
    """Delete expired codes, as many as fit one transaction; returns how many there were."""
    return conn.run(SQL.delete_expired, now_ms=conn.now_ms, count=DELETED_AT_ONCE)


def _check_room(conn: Connection, group: str, limits: DeviceCodeLimits) -> None:
    """Raise TooManyRequests if no further code may wait, for this address or at all."""
    conn.lock("device_codes", 0)
    # Deleting here bounds the rows even if no sweep runs.
    delete_expired(conn)
    own = conn.one(SQL.count_of_group, address_group=group, now_ms=conn.now_ms)
    if own is not None and own["count"] >= limits.per_address:
        raise _too_many("from this address", own["next_expires_at"], conn.now_ms)
    every = conn.one(SQL.count_all, now_ms=conn.now_ms)
    if every is not None and every["count"] >= limits.total:
        raise _too_many("in all", every["next_expires_at"], conn.now_ms)


def _too_many(where: str, next_expires_at: int | None, now_ms: int) -> TooManyRequests:
    seconds = max(1, -((now_ms - (next_expires_at or now_ms)) // 1000))
    return TooManyRequests(
        f"too many devices {where} are waiting for approval", retry_after_seconds=min(seconds, RETRY_SECONDS_MAX)
    )


def _shortened(scopes: list[str]) -> list[str]:
    """The first scopes, as many as fit."""
    kept: list[str] = []
    for scope in scopes:
        if sum(map(len, kept)) + len(scope) > SCOPES_LENGTH_MAX:
            break
        kept.append(scope)
    return kept


def _consume(conn: Connection, row: Row, device_id: int | None) -> DeviceCodeStatus | Approved | ForeignDevice:
    if device_id is not None and not device_owners.is_active(conn, device_id, row["user_id"]):
        return ForeignDevice()
    if not conn.run(SQL.consume, code_id=row["id"]):
        return DeviceCodeStatus.expired
    return Approved(row["user_id"])


def _is_too_soon(row: Row, now_ms: int) -> bool:
    last = row["last_polled_at"]
    return last is not None and now_ms - last < row["interval_seconds"] * 1000


def _new_user_code() -> str:
    return normalised("".join(secrets.choice(USER_CODE_LETTERS) for _ in range(USER_CODE_LENGTH)))
