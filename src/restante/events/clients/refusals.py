"""Refusals of clients, by the token endpoint and by the routes that need a token: one log line each, a counter by
reason, and the last ones for operators.

    refused request ──▶ log line · counter ──▶ memory ──every few seconds──▶ one row for each client and reason

The response has no details, because a stranger may have sent the request. Operators see the reason. A request
writes nothing to the database, and unknown clients have no row, so strangers cannot fill the disk.
"""

import asyncio
import time
from dataclasses import dataclass
from typing import get_args

import msgspec
import structlog

from restante.core.address_group import address_group
from restante.core.errors import RestanteError, TooManyRequests
from restante.core.iso_time import Timestamp, iso_precise
from restante.core.token_bucket import TokenBuckets
from restante.database.connection import Connection
from restante.database.database import Database
from restante.database.errors import DatabaseError
from restante.database.queries import queries_beside
from restante.events.clients import clients
from restante.events.clients.authentication.oauth_errors import InvalidClient, InvalidScope, RefusalReason
from restante.identity.clients.refused_token import ClientRefusal

SQL = queries_beside(__file__)

log = structlog.get_logger()

INTERVAL_SECONDS = 2.0
# Refusals that wait for the next write; further clients are counted and logged only.
WAITING_MAX = 1000
CLIENT_ID_CHARACTERS_MAX = 128
DETAIL_CHARACTERS_MAX = 300
# Log lines of refused tokens, for each sender.
LOG_LINES_PER_MINUTE = 10
SENDERS_MAX = 100_000


# For refusals whose response says only that authentication failed.
EXPLANATIONS: dict[RefusalReason, str] = {
    "unknown_client": "no client has this client_id",
    "suspended": "the client is suspended",
    "other_method": "the client is registered with another authentication method",
    "credentials": "the request has no usable credentials of the client",
    "secret": "the secret is wrong",
    "assertion": "the assertion is malformed, or no registered key verifies its signature",
    "certificate_missing": "the request has no client certificate, or no proxy has passed one on",
    "certificate_subject": "the subject of the certificate is not the registered one",
    "certificate_expired": "the certificate is not valid at this time",
}


class RefusalSummary(msgspec.Struct, frozen=True):
    """All refusals of a client for one reason; `detail` and `address` are those of the last one."""

    reason: str
    count: int
    detail: str
    address: str | None
    first_at: Timestamp
    last_at: Timestamp


@dataclass(slots=True)
class _Waiting:
    count: int
    detail: str
    address: str | None


def reason_of(error: RestanteError) -> RefusalReason:
    match error:
        case InvalidClient():
            return error.reason
        case InvalidScope():
            return "scope"
        case TooManyRequests():
            return "rate_limited"
    return "request"


class Refusals:
    def __init__(self, database: Database) -> None:
        self._database = database
        self.counts: dict[str, int] = dict.fromkeys(get_args(RefusalReason), 0)
        self._waiting: dict[tuple[str, str], _Waiting] = {}
        self._log_lines = TokenBuckets(LOG_LINES_PER_MINUTE / 60, LOG_LINES_PER_MINUTE, SENDERS_MAX)

    def record(self, client_id: str | None, error: RestanteError, address: str | None) -> None:
        """Record a refused request for a token. The token endpoint refuses senders that fail too often."""
        reason = reason_of(error)
        self._record(client_id, reason, _detail(error, reason), address)

    def record_token(self, refusal: ClientRefusal) -> None:
        """Record a request whose token was refused. Such requests are not limited, but the log lines of a sender are,
        so that it cannot fill the log."""
        sender = hash(address_group(refusal.address))
        is_logged = self._log_lines.acquire(sender, time.monotonic()) == 0.0
        self._record(refusal.client_id, refusal.reason, refusal.detail, refusal.address, is_logged=is_logged)

    def _record(
        self, client_id: str | None, reason: RefusalReason, detail: str, address: str | None, *, is_logged: bool = True
    ) -> None:
        detail = detail[:DETAIL_CHARACTERS_MAX]
        self.counts[reason] += 1
        known_text = client_id if client_id and _is_plain(client_id) else None
        if is_logged:
            log.warning("client refused", client_id=known_text, reason=reason, detail=detail, address=address)
        if known_text is None:
            return
        waiting = self._waiting.get((known_text, reason))
        if waiting is None:
            if len(self._waiting) < WAITING_MAX:
                self._waiting[known_text, reason] = _Waiting(1, detail, address)
            return
        waiting.count, waiting.detail, waiting.address = waiting.count + 1, detail, address

    async def run(self) -> None:
        while True:
            await asyncio.sleep(INTERVAL_SECONDS)
            await self.write()

    async def write(self) -> None:
        """Write the waiting refusals. They are dropped if that fails: they are in the log."""
        if not self._waiting:
            return
        waiting, self._waiting = self._waiting, {}
        try:
            await self._database.write(_add, waiting)
        except DatabaseError as error:
            log.error("refusals of clients not stored", error=str(error))


def last_refusals(conn: Connection, client_id: str) -> list[RefusalSummary]:
    """The refusals of a client, the latest first; raise NotFound if there is no such client."""
    rows = conn.all(SQL.refusals, client=clients.get(conn, client_id).id)
    return [
        RefusalSummary(
            row["reason"],
            row["count"],
            row["detail"],
            row["address"],
            iso_precise(row["first_at"]),
            iso_precise(row["last_at"]),
        )
        for row in rows
    ]


def _add(conn: Connection, waiting: dict[tuple[str, str], _Waiting]) -> None:
    # Sorted, because another node may be writing the same rows: a common order avoids deadlocks.
    for (client_id, reason), each in sorted(waiting.items(), key=lambda item: item[0]):
        conn.run(
            SQL.add_refusals,
            client_id=client_id,
            reason=reason,
            count=each.count,
            detail=each.detail,
            address=each.address,
            now_ms=conn.now_ms,
        )


def _detail(error: RestanteError, reason: RefusalReason) -> str:
    has_own_message = error.message != InvalidClient().message
    return error.message if has_own_message else EXPLANATIONS.get(reason, error.message)


def _is_plain(client_id: str) -> bool:
    return len(client_id) <= CLIENT_ID_CHARACTERS_MAX and client_id.isascii() and client_id.isprintable()
