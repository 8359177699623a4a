"""Events to publish, subscriptions and streams to receive them, and a signer with real keys."""

import json
from typing import Any

import jwt

from restante.database.connection import Connection
from restante.database.database import Database
from restante.database.queries import Query
from restante.events.publishing import publishing, subjects
from restante.events.publishing.publishing import EventRequest
from restante.events.publishing.token_claims import RESOURCE_UPDATE
from restante.events.signing import event_keys
from restante.events.signing.signer import Signer, SignerOptions
from restante.events.signing.signing_pool import SigningPool
from restante.identity.master_key import MasterKey

MASTER = MasterKey(b"m" * 32)
OPTIONS = SignerOptions(issuer="https://bank.example", header_issuer="bank-org", trust_anchor="openbanking.org.uk")

SUB = "https://bank.example/open-banking/v4.0/pisp/domestic-payments/pmt-7290-003"
SUBJECT = {
    "subject_type": "http://openbanking.org.uk/rid_http://openbanking.org.uk/rty",
    "http://openbanking.org.uk/rid": "pmt-7290-003",
    "http://openbanking.org.uk/rty": "domestic-payment",
    "http://openbanking.org.uk/rlk": [{"version": "v4.0", "link": SUB}],
}
UPDATED = {RESOURCE_UPDATE: {"subject": SUBJECT}}
SESSION_REVOKED = "https://schemas.openid.net/secevent/caep/event-type/session-revoked"

_ROWS = Query(
    "rows",
    """SELECT i.*, t.text FROM event_inbox i JOIN event_texts t ON t.place = i.client * 1099511627776 + i.id
       ORDER BY i.id""",
)
_ALG = Query("set_alg", "UPDATE event_clients SET set_signing_alg = :alg WHERE id = :client")
_SUBSCRIBE = Query(
    "subscribe",
    """INSERT INTO event_subscriptions (public_id, client, version, event_types, created_at, updated_at)
       VALUES (:public_id, :client, '4.0', :event_types, :now_ms, :now_ms)""",
)
_STREAM = Query(
    "stream",
    """INSERT INTO event_streams
           (public_id, client, status, events_delivered, all_subjects, created_at, updated_at)
       VALUES (:public_id, :client, :status, :requested, :all_subjects, :now_ms, :now_ms) RETURNING id""",
)
_FOLLOW = Query(
    "follow",
    """INSERT INTO event_stream_subjects (stream, subject_hash, subject, is_added, updated_at)
       VALUES (:stream, :subject_hash, '{}', :is_added, :now_ms)""",
)


def event_request(client_id: str | None = None, **changed: Any) -> EventRequest:
    return EventRequest(
        **{"client_id": client_id, "all_subscribers": client_id is None, "sub": SUB, "events": UPDATED, **changed}
    )


def publish(database: Database, client_id: str | None = None, **changed: Any) -> list[str]:
    return database.write_now(publishing.publish, event_request(client_id, **changed))


def inbox_rows(database: Database) -> list[dict[str, Any]]:
    """Return all inbox rows with their texts, oldest first."""
    return [dict(**row) for row in database.read_now(lambda conn: conn.all(_ROWS))]


def set_alg(database: Database, client: int, alg: str) -> None:
    database.write_now(lambda conn: conn.run(_ALG, client=client, alg=alg))


def subscribe(database: Database, client: int, event_types: str | None) -> None:
    database.write_now(
        lambda conn: conn.run(
            _SUBSCRIBE, public_id=f"s{client}", client=client, event_types=event_types, now_ms=conn.now_ms
        )
    )


def add_stream(
    database: Database, client: int, requested: str, *, status: str = "enabled", all_subjects: bool = True
) -> int:
    def add(conn: Connection) -> int:
        row = conn.one(
            _STREAM,
            public_id=f"t{client}",
            client=client,
            status=status,
            requested=requested,
            all_subjects=int(all_subjects),
            now_ms=conn.now_ms,
        )
        assert row is not None
        return int(row["id"])

    return database.write_now(add)


def set_subject_preference(database: Database, stream: int, subject: dict[str, Any], *, is_added: bool = True) -> None:
    database.write_now(
        lambda conn: conn.run(
            _FOLLOW,
            stream=stream,
            subject_hash=subjects.subject_digest(subject),
            is_added=int(is_added),
            now_ms=conn.now_ms,
        )
    )


def signer_of(database: Database, pool: SigningPool, **changed: Any) -> Signer:
    return Signer(database, MASTER, pool, OPTIONS, **changed)


class OpenBankingVerifier(jwt.PyJWS):
    """An independent JWS library, configured to accept the three critical headers of Open Banking."""

    def __init__(self) -> None:
        super().__init__()
        self._supported_crit = {f"http://openbanking.org.uk/{name}" for name in ("iat", "iss", "tan")}


def header_of(token: str) -> dict[str, Any]:
    return OpenBankingVerifier().get_unverified_header(token)


def verified_claims(database: Database, token: str) -> dict[str, Any]:
    """Verify the token with the published keys; return its claims."""
    kid = header_of(token)["kid"]
    key = {each["kid"]: each for each in database.read_now(event_keys.published_jwks)}[kid]
    read = OpenBankingVerifier().decode_complete(token, jwt.PyJWK(key).key, algorithms=[key["alg"]])
    claims = json.loads(read["payload"])
    assert isinstance(claims, dict)
    return claims
