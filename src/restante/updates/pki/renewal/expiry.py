"""Lists of certificates and authorities by when they end, for teams: the first to end comes first.

A caller sees those of the users that its grants open. Certificates that are not issued, and what is revoked, are not in
these lists.
"""

from dataclasses import dataclass
from typing import Literal

import msgspec

from restante.core.iso_time import Timestamp, iso_precise
from restante.database.connection import Connection, Row
from restante.database.lists import filtered_list
from restante.database.lists.filtered_list import Condition, FilteredList, among, begins, equal
from restante.database.paging import PageRequest
from restante.database.queries import queries_beside
from restante.identity.grants import AllowedIds

SQL = queries_beside(__file__)

Renewal = Literal["failed", "on", "off"]
RENEWALS: tuple[Renewal, ...] = ("failed", "on", "off")

# The first key of a second: see `expiry_key` in the migration.
_KEYS_OF_SECOND = 2**24
# After the year 9999; the key still is a number of 64 bits.
_SECONDS_MAX = 2**38
_RENEWAL_CONDITIONS = {
    "failed": Condition("renewal_failures > 0"),
    "on": Condition("renew_at IS NOT NULL"),
    "off": Condition("renew_at IS NULL"),
}
_CERTIFICATES = FilteredList(
    "expiry_key AS id, cert_records.id AS certificate_id, user_id, domain_name, serial, issuer, not_after, auto_renew,"
    " renew_at, renewal_failures, renewal_failed_at, renewal_error,"
    " (SELECT COUNT(*) FROM cert_record_devices AS c WHERE c.cert_record_id = cert_records.id) AS devices_count",
    "cert_records",
    key="expiry_key",
    is_descending=False,
)
_AUTHORITIES = FilteredList(
    "expiry_key AS id, certificate_authorities.id AS ca_id, user_id, name, serial, not_after",
    "certificate_authorities",
    key="expiry_key",
    is_descending=False,
)


class ExpiringCertificate(msgspec.Struct, frozen=True, kw_only=True):
    """`renews_at`: when it is renewed by itself, or tried again after a failure; null: never."""

    certificate_id: int
    user_id: int
    domain_name: str
    serial: str
    issuer: str
    not_after: Timestamp
    auto_renew: bool
    renews_at: Timestamp | None
    renewal_failures: int
    renewal_failed_at: Timestamp | None
    renewal_error: str | None
    devices_count: int


class ExpiringAuthority(msgspec.Struct, frozen=True, kw_only=True):
    ca_id: int
    user_id: int
    name: str
    serial: str
    not_after: Timestamp


class ExpiringCertificates(msgspec.Struct, frozen=True):
    items: list[ExpiringCertificate]
    next: str | None


class ExpiringAuthorities(msgspec.Struct, frozen=True):
    items: list[ExpiringAuthority]
    next: str | None


@dataclass(frozen=True, slots=True)
class ExpiryFilter:
    """`before`: only what ends before this time, in milliseconds since the epoch. None means any."""

    before: int | None = None
    user_id: int | None = None
    name: str | None = None
    renewal: Renewal | None = None


class ExpiryCounts(msgspec.Struct, frozen=True):
    """What an operator should look at. `certificates`: end soon and are not renewed by themselves."""

    failed_renewals: int
    certificates: int
    authorities: int


def certificates(conn: Connection, wanted: ExpiryFilter, page: PageRequest, users: AllowedIds) -> ExpiringCertificates:
    renewal = () if wanted.renewal is None else (_RENEWAL_CONDITIONS[wanted.renewal],)
    found = filtered_list.read(
        conn, _narrowed(_CERTIFICATES, wanted, "domain_name", users, renewal), page, _certificate
    )
    return ExpiringCertificates(found.items, None if found.next is None else str(found.next))


def of_certificate(conn: Connection, certificate_id: int) -> ExpiringCertificate | None:
    """One certificate; None if it is not issued, or revoked."""
    row = conn.one(SQL.of_certificate, certificate_id=certificate_id)
    return None if row is None else _certificate(row)


def authorities(conn: Connection, wanted: ExpiryFilter, page: PageRequest, users: AllowedIds) -> ExpiringAuthorities:
    found = filtered_list.read(conn, _narrowed(_AUTHORITIES, wanted, "name", users, ()), page, _authority)
    return ExpiringAuthorities(found.items, None if found.next is None else str(found.next))


def counts(conn: Connection, certificates_before: int, authorities_before: int, users: AllowedIds) -> ExpiryCounts:
    """Count what needs attention; each count ends at 1,000."""
    row = conn.one(
        SQL.counts,
        certificate_key=_first_key(certificates_before),
        authority_key=_first_key(authorities_before),
        users=users.as_json(),
    )
    assert row is not None  # noqa: S101 — a SELECT without FROM returns a row
    return ExpiryCounts(row["failed"], row["certificates"], row["authorities"])


def _narrowed(
    base: FilteredList, wanted: ExpiryFilter, name_column: str, users: AllowedIds, more: tuple[Condition, ...]
) -> FilteredList:
    return FilteredList(
        base.columns,
        base.source,
        key=base.key,
        is_descending=False,
        indexed=(Condition("expiry_key IS NOT NULL"), *equal("user_id", wanted.user_id)),
        rest=(*begins(name_column, wanted.name), *among("user_id", users.as_json()), *more),
        below=None if wanted.before is None else _first_key(wanted.before),
    )


def _first_key(time_ms: int) -> int:
    return min(time_ms // 1000, _SECONDS_MAX) * _KEYS_OF_SECOND


def _certificate(row: Row) -> ExpiringCertificate:
    return ExpiringCertificate(
        certificate_id=row["certificate_id"],
        user_id=row["user_id"],
        domain_name=row["domain_name"],
        serial=row["serial"],
        issuer=row["issuer"],
        not_after=iso_precise(row["not_after"]),
        auto_renew=bool(row["auto_renew"]),
        renews_at=_time(row["renew_at"]),
        renewal_failures=row["renewal_failures"],
        renewal_failed_at=_time(row["renewal_failed_at"]),
        renewal_error=row["renewal_error"],
        devices_count=row["devices_count"],
    )


def _authority(row: Row) -> ExpiringAuthority:
    return ExpiringAuthority(
        ca_id=row["ca_id"],
        user_id=row["user_id"],
        name=row["name"],
        serial=row["serial"],
        not_after=iso_precise(row["not_after"]),
    )


def _time(ms: int | None) -> str | None:
    return None if ms is None else iso_precise(ms)
