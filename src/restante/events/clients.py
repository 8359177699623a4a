"""Clients of event polling: who they are, how they prove it, what they may ask for.

A client proves who it is in exactly one way, with what is registered for it: a secret (kept as its digest), public
keys, or the subject of its certificate. Replacing that, or suspending the client, ends its access tokens with the same
commit.

Must always hold: whoever takes access away ends the tokens, announces ClientRevoked and raises the identity revision
in one transaction; everything that is done to a client is recorded.
"""

import re
import secrets
from typing import Any, Literal, NamedTuple

from restante.core.errors import BadInput, Conflict, NotFound
from restante.database.connection import Connection, Row
from restante.database.queries import queries_beside
from restante.events import client_keys, event_audit
from restante.identity import client_tokens, revisions, secret_tokens, subject_dn
from restante.identity.callers import ClientRevoked

SQL = queries_beside(__file__)

Method = Literal["tls_client_auth", "private_key_jwt", "client_secret_basic"]
SigningAlg = Literal["PS256", "ES256", "EdDSA", "RS256"]

SCOPES = ("eventpolling", "ssf.read", "ssf.manage")
SECRET_PREFIX = "cs_"  # noqa: S105 — a prefix, not a secret
CLIENT_ID_LENGTH_MAX = 128
NAME_LENGTH_MAX = 200
_CLIENT_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._~-]*")


class Registration(NamedTuple):
    """A client as an operator wants it."""

    name: str
    method: Method
    client_id: str | None = None
    jwks: Any = None
    subject_dn: str | None = None
    set_signing_alg: SigningAlg = "PS256"
    scope: str = SCOPES[0]


class Registered(NamedTuple):
    """The secret is told this once, where the client has one."""

    client_id: str
    client_secret: str | None


class Credentials(NamedTuple):
    """What a client proves who it is with, as it is stored."""

    method: Method
    secret_hash: bytes | None
    jwks: str | None
    subject_dn: str | None


class Client(NamedTuple):
    id: int
    client_id: str
    name: str
    credentials: Credentials
    scope: str
    set_signing_alg: SigningAlg
    created_at: int
    suspended_at: int | None
    last_poll_at: int | None

    @property
    def scopes(self) -> frozenset[str]:
        return frozenset(self.scope.split())


def add(conn: Connection, registration: Registration, actor: str = "system") -> Registered:
    """A new client. BadInput names what is wrong with it; a client_id that is taken is a Conflict."""
    client_id = _checked_client_id(registration.client_id)
    name = _checked_name(registration.name)
    credentials, secret = _made(registration.method, registration.jwks, registration.subject_dn)
    row = conn.one(
        SQL.insert_client,
        client_id=client_id,
        name=name,
        method=credentials.method,
        secret_hash=credentials.secret_hash,
        jwks=credentials.jwks,
        subject_dn=credentials.subject_dn,
        scope=checked_scope(registration.scope),
        set_signing_alg=registration.set_signing_alg,
        now_ms=conn.now_ms,
    )
    if row is None:
        raise Conflict(f"there is a client with the client_id {client_id}")
    event_audit.record(conn, actor, "client.registered", client_id, _detail(credentials, name=name))
    return Registered(client_id, secret)


def find(conn: Connection, client_id: str) -> Client | None:
    row = conn.one(SQL.client, client_id=client_id) if is_client_id(client_id) else None
    return None if row is None else _client(row)


def get(conn: Connection, client_id: str) -> Client:
    found = find(conn, client_id)
    if found is None:
        raise NotFound("there is no such client")
    return found


def held(conn: Connection, client_id: str) -> Client | None:
    """The client, which nobody changes before the end of this transaction."""
    row = conn.one(SQL.client_held, client_id=client_id) if is_client_id(client_id) else None
    return None if row is None else _client(row)


def list_some(conn: Connection, after: int, limit: int) -> list[Client]:
    return [_client(row) for row in conn.all(SQL.clients, after=after, limit=limit)]


def count(conn: Connection) -> int:
    row = conn.one(SQL.count_clients)
    return int(row["clients"]) if row else 0


def rotate(conn: Connection, client_id: str, jwks: Any, subject_dn: str | None, actor: str) -> Registered:
    """Replace what the client proves itself with, of the same method. Its access tokens end at once."""
    client = _get_held(conn, client_id)
    credentials, secret = _made(client.credentials.method, jwks, subject_dn)
    conn.run(
        SQL.put_credentials,
        id=client.id,
        secret_hash=credentials.secret_hash,
        jwks=credentials.jwks,
        subject_dn=credentials.subject_dn,
    )
    ended = _end_access(conn, client.id)
    event_audit.record(conn, actor, "client.rotated", client_id, _detail(credentials, tokens_ended=ended))
    return Registered(client_id, secret)


def suspend(conn: Connection, client_id: str, actor: str) -> Client:
    """Refuse the client everywhere; its events are kept. A second time changes nothing."""
    client = _get_held(conn, client_id)
    if client.suspended_at is None:
        conn.run(SQL.put_suspended, id=client.id, suspended_at=conn.now_ms)
        ended = _end_access(conn, client.id)
        event_audit.record(conn, actor, "client.suspended", client_id, {"tokens_ended": ended})
    return get(conn, client_id)


def resume(conn: Connection, client_id: str, actor: str) -> Client:
    """Let a suspended client in again; it needs a new access token."""
    client = _get_held(conn, client_id)
    if client.suspended_at is not None:
        conn.run(SQL.put_suspended, id=client.id, suspended_at=None)
        event_audit.record(conn, actor, "client.resumed", client_id, {})
    return get(conn, client_id)


def is_client_id(text: str) -> bool:
    """Whether a client could be called so; the database need not be asked for what could not."""
    return len(text) <= CLIENT_ID_LENGTH_MAX and _CLIENT_ID.fullmatch(text) is not None


def checked_scope(scope: str) -> str:
    """The scopes in their own order, each once."""
    wanted = scope.split(" ")
    if not wanted or not set(wanted) <= set(SCOPES):
        raise BadInput("scope", f"one or more of {', '.join(SCOPES)}, separated by single spaces")
    return " ".join(each for each in SCOPES if each in wanted)


def _made(method: Method, jwks: Any, subject_dn_said: str | None) -> tuple[Credentials, str | None]:
    """What is stored, and the secret if there is one to tell. What belongs to another method is refused."""
    if jwks is not None and method != "private_key_jwt":
        raise BadInput("jwks", f"nothing: it is for private_key_jwt, not for {method}")
    if subject_dn_said is not None and method != "tls_client_auth":
        raise BadInput("tls_client_auth_subject_dn", f"nothing: it is for tls_client_auth, not for {method}")
    if method == "private_key_jwt":
        return Credentials(method, None, client_keys.checked(jwks), None), None
    if method == "tls_client_auth":
        return Credentials(method, None, None, _checked_subject(subject_dn_said)), None
    secret = secret_tokens.make(SECRET_PREFIX)
    return Credentials(method, secret_tokens.digest(secret), None, None), secret


def _checked_client_id(client_id: str | None) -> str:
    if client_id is None:
        return secrets.token_hex(16)
    if not is_client_id(client_id):
        expected = f"1 to {CLIENT_ID_LENGTH_MAX} letters, digits or any of . _ ~ -, the first a letter or digit"
        raise BadInput("client_id", expected)
    return client_id


def _checked_name(name: str) -> str:
    if not 1 <= len(name) <= NAME_LENGTH_MAX or not name.isprintable() or not name.strip():
        raise BadInput("name", f"1 to {NAME_LENGTH_MAX} printable characters")
    return name


def _checked_subject(said: str | None) -> str:
    try:
        subject_dn.canonical(said or "")
    except ValueError:
        raise BadInput("tls_client_auth_subject_dn", subject_dn.EXPECTED) from None
    return said or ""


def _get_held(conn: Connection, client_id: str) -> Client:
    client = held(conn, client_id)
    if client is None:
        raise NotFound("there is no such client")
    return client


def _end_access(conn: Connection, client: int) -> int:
    """How many tokens there were."""
    ended = client_tokens.end_all(conn, client)
    revisions.raise_revision(conn)
    conn.announce(ClientRevoked(client))
    return ended


def _detail(credentials: Credentials, **more: Any) -> dict[str, Any]:
    shown: dict[str, Any] = {"token_endpoint_auth_method": credentials.method}
    if credentials.jwks is not None:
        shown["kids"] = client_keys.kids(credentials.jwks)
    if credentials.subject_dn is not None:
        shown["tls_client_auth_subject_dn"] = credentials.subject_dn
    return {**shown, **more}


def _client(row: Row) -> Client:
    credentials = Credentials(row["token_endpoint_auth_method"], row["secret_hash"], row["jwks"], row["tls_subject_dn"])
    return Client(
        row["id"],
        row["client_id"],
        row["name"],
        credentials,
        row["scope"],
        row["set_signing_alg"],
        row["created_at"],
        row["suspended_at"],
        row["last_poll_at"],
    )
