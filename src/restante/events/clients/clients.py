"""Clients of event polling: identity, credentials and scopes.

A client authenticates with exactly one kind of credentials: a secret (stored as its digest), public keys, or the
subject of its certificate. Public keys also verify its message signatures, whatever its kind. Replacing the
credentials, or suspending the client, ends its access tokens in the same commit.

Invariants:
- One transaction that ends access also ends the tokens, publishes ClientRevoked and raises the identity revision.
- Every change of a client is recorded in the audit log.
"""

import re
import secrets
from dataclasses import dataclass, replace
from typing import Any, Literal, Self, get_args

from restante.core.errors import BadInput, Conflict, NotFound
from restante.database.connection import Connection, Row
from restante.database.lists import filtered_list
from restante.database.lists.filtered_list import Condition, FilteredList, StateCounting, among, begins, between, equal
from restante.database.paging import Page, PageRequest
from restante.database.queries import queries_beside
from restante.events.clients import client_scope
from restante.events.clients.authentication import client_keys
from restante.events.publishing import event_audit
from restante.events.signing.jws import SHARED_SIGNALS_ALGORITHM
from restante.identity import revocation_counter, secret_tokens
from restante.identity.callers import ClientRevoked
from restante.identity.clients import client_tokens, subject_dn
from restante.identity.clients.scopes import SCOPES
from restante.identity.grants import ALL_IDS, AllowedIds

SQL = queries_beside(__file__)

AuthMethod = Literal["tls_client_auth", "private_key_jwt", "client_secret_basic"]
SigningAlg = Literal["PS256", "ES256", "EdDSA", "RS256"]
ClientState = Literal["active", "suspended", "removed"]
STATES: tuple[ClientState, ...] = get_args(ClientState)

SECRET_PREFIX = "cs_"  # noqa: S105 — a prefix, not a secret
CLIENT_ID_LENGTH_MAX = 128
NAME_LENGTH_MAX = 200
# Parts of paths beside the clients: no client can have such an id.
RESERVED_IDS = ("counts", "export")
_COLUMNS = (
    "id, client_id, name, token_endpoint_auth_method, secret_hash, jwks, tls_subject_dn, scope, set_signing_alg,"
    " created_at, suspended_at, last_poll_at, removed_at, jwks_uri, jwks_read_at"
)
_STATE = (
    "CASE WHEN removed_at IS NOT NULL THEN 'removed' WHEN suspended_at IS NOT NULL THEN 'suspended' ELSE 'active' END"
)
_CLIENT_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._~-]*")


@dataclass(frozen=True, slots=True)
class PublishedKeys:
    """The usable keys that a client publishes at an address, as they are stored."""

    uri: str
    jwks: str


@dataclass(frozen=True, slots=True)
class ClientRegistration:
    """An operator's request to register a client. Its keys are in `jwks`, or were read from its own address."""

    name: str
    method: AuthMethod
    client_id: str | None = None
    jwks: Any = None
    subject_dn: str | None = None
    set_signing_alg: SigningAlg = "PS256"
    scope: str = SCOPES[0]
    published: PublishedKeys | None = None


@dataclass(frozen=True, slots=True)
class RegisteredClient:
    """The result of a registration or rotation. The secret, if the client has one, is shown once."""

    client_id: str
    client_secret: str | None


@dataclass(frozen=True, slots=True)
class ClientCredentials:
    """A client's credentials as they are stored."""

    method: AuthMethod
    secret_hash: bytes | None
    jwks: str | None
    subject_dn: str | None
    jwks_uri: str | None = None

    def is_same_registration(self, other: Self) -> bool:
        """Whether no operator replaced them. Keys that were read again from the same address are no replacement."""
        if self.jwks_uri is not None and self.jwks_uri == other.jwks_uri:
            return replace(self, jwks=None) == replace(other, jwks=None)
        return self == other


@dataclass(frozen=True, slots=True)
class EventClient:
    id: int
    client_id: str
    name: str
    credentials: ClientCredentials
    scope: str
    set_signing_alg: SigningAlg
    created_at: int
    suspended_at: int | None
    last_poll_at: int | None
    removed_at: int | None = None
    jwks_read_at: int | None = None

    def without_keys(self) -> "EventClient":
        return replace(self, credentials=replace(self.credentials, jwks=None))

    @property
    def status(self) -> ClientState:
        if self.removed_at is not None:
            return "removed"
        return "active" if self.suspended_at is None else "suspended"

    @property
    def scopes(self) -> frozenset[str]:
        return frozenset(self.scope.split())


def add(conn: Connection, registration: ClientRegistration, actor: str = "system") -> RegisteredClient:
    """Register a client. Raise BadInput for an invalid field and Conflict if the client_id exists."""
    client_id = _check_client_id(registration.client_id)
    name = _check_name(registration.name)
    credentials, secret = _make_credentials(
        registration.method, registration.jwks, registration.published, registration.subject_dn
    )
    row = conn.one(
        SQL.insert_client,
        client_id=client_id,
        name=name,
        method=credentials.method,
        secret_hash=credentials.secret_hash,
        jwks=credentials.jwks,
        jwks_uri=credentials.jwks_uri,
        jwks_read_at=None if registration.published is None else conn.now_ms,
        subject_dn=credentials.subject_dn,
        scope=check_scope(registration.scope),
        set_signing_alg=registration.set_signing_alg,
        now_ms=conn.now_ms,
    )
    if row is None:
        raise Conflict(f"a client with the client_id {client_id} already exists")
    event_audit.record(conn, actor, "client.registered", client_id, _audit_detail(credentials, name=name))
    return RegisteredClient(client_id, secret)


def find(conn: Connection, client_id: str) -> EventClient | None:
    row = conn.one(SQL.client, client_id=client_id) if is_client_id(client_id) else None
    return None if row is None else _client(row)


def get(conn: Connection, client_id: str) -> EventClient:
    found = find(conn, client_id)
    if found is None:
        raise NotFound("there is no such client")
    return found


def find_for_update(conn: Connection, client_id: str) -> EventClient | None:
    """`find` the client and lock it until the end of the transaction."""
    row = conn.one(SQL.client_for_update, client_id=client_id) if is_client_id(client_id) else None
    return None if row is None else _client(row)


@dataclass(frozen=True, slots=True)
class ClientFilter:
    """None in a field: any value. `name`: the beginning of the name. `polled_before_ms`: no poll since, or none."""

    name: str | None = None
    status: str | None = None
    method: str | None = None
    scope: str | None = None
    polled_before_ms: int | None = None
    polled_after_ms: int | None = None


def list_page(
    conn: Connection, filters: ClientFilter, page: PageRequest, allowed: AllowedIds = ALL_IDS
) -> Page[EventClient]:
    """A page of the allowed clients that match, in the order of registration."""
    return filtered_list.read(conn, filtered(conn, filters, allowed), page, _client)


def counting(filters: ClientFilter, allowed: AllowedIds = ALL_IDS) -> StateCounting:
    """Counts the allowed clients that match, in each state."""
    return StateCounting(lambda conn: filtered(conn, filters, allowed), _STATE, STATES)


def filtered(conn: Connection, filters: ClientFilter, allowed: AllowedIds) -> FilteredList:
    before = filters.polled_before_ms
    # The scopes of a client are words with spaces between them.
    scope = "(' ' || scope || ' ') LIKE '% ' || CAST(:scope AS TEXT) || ' %'"
    return FilteredList(
        _COLUMNS,
        "event_clients",
        is_descending=False,
        rest=(
            *among("id", client_scope.row_ids(conn, allowed)),
            *begins("name", filters.name),
            *equal(f"({_STATE})", filters.status, "status"),
            *equal("token_endpoint_auth_method", filters.method, "method"),
            *(() if filters.scope is None else (Condition(scope, {"scope": filters.scope}),)),
            *between("last_poll_at", filters.polled_after_ms, None),
            *(() if before is None else (Condition("COALESCE(last_poll_at, 0) < :before", {"before": before}),)),
        ),
    )


@dataclass(frozen=True, slots=True)
class ClientName:
    client_id: str
    name: str
    is_removed: bool


def names(conn: Connection, limit: int, allowed: AllowedIds = ALL_IDS) -> list[ClientName]:
    """The first of the allowed clients, without their keys and events."""
    rows = conn.all(SQL.client_names, clients=client_scope.row_ids(conn, allowed), limit=limit)
    return [ClientName(row["client_id"], row["name"], row["removed_at"] is not None) for row in rows]


def count(conn: Connection) -> int:
    row = conn.one(SQL.count_clients)
    return int(row["clients"]) if row else 0


def rotate(
    conn: Connection,
    client_id: str,
    jwks: Any,
    subject_dn: str | None,
    actor: str,
    published: PublishedKeys | None = None,
) -> RegisteredClient:
    """Replace the client's credentials with others of the same method. Its access tokens end at once.

    Public keys of a client that does not authenticate with them stay unless others are given.
    """
    client = get_for_update(conn, client_id)
    before = client.credentials
    has_keys = jwks is not None or published is not None
    if before.method == "tls_client_auth" and has_keys and subject_dn is None:
        subject_dn = before.subject_dn
    credentials, secret = _make_credentials(before.method, jwks, published, subject_dn)
    if not has_keys:
        credentials = replace(credentials, jwks=before.jwks, jwks_uri=before.jwks_uri)
    conn.run(
        SQL.set_credentials,
        id=client.id,
        secret_hash=credentials.secret_hash,
        jwks=credentials.jwks,
        jwks_uri=credentials.jwks_uri,
        jwks_read_at=client.jwks_read_at if published is None else conn.now_ms,
        subject_dn=credentials.subject_dn,
    )
    ended = end_access(conn, client.id)
    event_audit.record(conn, actor, "client.rotated", client_id, _audit_detail(credentials, tokens_ended=ended))
    return RegisteredClient(client_id, secret)


def store_published_keys(conn: Connection, client_id: str, published: PublishedKeys) -> EventClient | None:
    """Store what the client's address has now. None if the client has another address meanwhile, or was removed."""
    client = find_for_update(conn, client_id)
    if client is None or client.removed_at is not None or client.credentials.jwks_uri != published.uri:
        return None
    conn.run(SQL.set_published_keys, id=client.id, jwks=published.jwks, now_ms=conn.now_ms)
    kids = client_keys.kids(published.jwks)
    if kids != client_keys.kids(client.credentials.jwks):
        event_audit.record(conn, "system", "client.keys_read", client_id, {"jwks_uri": published.uri, "kids": kids})
    return get(conn, client_id)


def suspend(conn: Connection, client_id: str, actor: str) -> EventClient:
    """Refuse all requests of the client and keep its events. Suspending it again changes nothing."""
    client = get_for_update(conn, client_id)
    if client.suspended_at is None:
        conn.run(SQL.set_suspended_at, id=client.id, suspended_at=conn.now_ms)
        ended = end_access(conn, client.id)
        event_audit.record(conn, actor, "client.suspended", client_id, {"tokens_ended": ended})
    return get(conn, client_id)


def resume(conn: Connection, client_id: str, actor: str) -> EventClient:
    """End the suspension of a client; it needs a new access token."""
    client = get_for_update(conn, client_id)
    if client.suspended_at is not None:
        conn.run(SQL.set_suspended_at, id=client.id, suspended_at=None)
        event_audit.record(conn, actor, "client.resumed", client_id, {})
    return get(conn, client_id)


def is_client_id(text: str) -> bool:
    """Return whether the text is a valid client_id; if not, a lookup is useless."""
    return len(text) <= CLIENT_ID_LENGTH_MAX and _CLIENT_ID.fullmatch(text) is not None


def check_scope(scope: str) -> str:
    """Return the scopes in canonical order, each once."""
    requested = scope.split(" ")
    if not requested or not set(requested) <= set(SCOPES):
        raise BadInput("scope", f"one or more of {', '.join(SCOPES)}, separated by single spaces")
    return " ".join(each for each in SCOPES if each in requested)


def event_algorithms(scope: str, set_signing_alg: str) -> list[str]:
    """Return the algorithms that sign the events of such a client: Shared Signals have one of their own."""
    is_receiver = any(each.startswith("ssf.") for each in scope.split())
    return list(dict.fromkeys([set_signing_alg, *([SHARED_SIGNALS_ALGORITHM] if is_receiver else [])]))


def _make_credentials(
    method: AuthMethod, jwks: Any, published: PublishedKeys | None, tls_subject_dn: str | None
) -> tuple[ClientCredentials, str | None]:
    """Return the credentials to store, and the new secret, if any. Refuse a subject of another method.

    Every client may have public keys: where they do not authenticate it, they verify its message signatures.
    """
    if tls_subject_dn is not None and method != "tls_client_auth":
        raise BadInput("tls_client_auth_subject_dn", f"no value: it belongs to tls_client_auth, not to {method}")
    keys, uri = _registered_keys(method, jwks, published)
    if method == "private_key_jwt":
        return ClientCredentials(method, None, keys, None, uri), None
    if method == "tls_client_auth":
        return ClientCredentials(method, None, keys, _check_subject(tls_subject_dn), uri), None
    secret = secret_tokens.make(SECRET_PREFIX)
    return ClientCredentials(method, secret_tokens.digest(secret), keys, None, uri), secret


def _registered_keys(method: AuthMethod, jwks: Any, published: PublishedKeys | None) -> tuple[str | None, str | None]:
    """The keys to store, and the address that they came from, if any."""
    if published is not None:
        if jwks is not None:
            raise BadInput("jwks_uri", "no value: jwks has the keys")
        return published.jwks, published.uri
    return None if jwks is None and method != "private_key_jwt" else client_keys.check_jwks(jwks), None


def _check_client_id(client_id: str | None) -> str:
    if client_id is None:
        return secrets.token_hex(16)
    if not is_client_id(client_id):
        expected = f"1 to {CLIENT_ID_LENGTH_MAX} letters, digits or any of . _ ~ -, the first a letter or digit"
        raise BadInput("client_id", expected)
    if client_id in RESERVED_IDS:
        raise BadInput("client_id", f"another id than {' or '.join(RESERVED_IDS)}")
    return client_id


def _check_name(name: str) -> str:
    if not 1 <= len(name) <= NAME_LENGTH_MAX or not name.isprintable() or not name.strip():
        raise BadInput("name", f"1 to {NAME_LENGTH_MAX} printable characters")
    return name


def _check_subject(tls_subject_dn: str | None) -> str:
    try:
        subject_dn.canonical(tls_subject_dn or "")
    except ValueError:
        raise BadInput("tls_client_auth_subject_dn", subject_dn.EXPECTED) from None
    return tls_subject_dn or ""


def get_for_update(conn: Connection, client_id: str) -> EventClient:
    client = find_for_update(conn, client_id)
    if client is None:
        raise NotFound("there is no such client")
    if client.removed_at is not None:
        raise Conflict("the client was removed")
    return client


def end_access(conn: Connection, client: int) -> int:
    """End all access tokens of the client; return their number."""
    ended = client_tokens.end_all(conn, client)
    revocation_counter.increment(conn)
    conn.add_commit_event(ClientRevoked(client))
    return ended


def _audit_detail(credentials: ClientCredentials, **more: Any) -> dict[str, Any]:
    shown: dict[str, Any] = {"token_endpoint_auth_method": credentials.method}
    if credentials.jwks is not None:
        shown["kids"] = client_keys.kids(credentials.jwks)
    if credentials.jwks_uri is not None:
        shown["jwks_uri"] = credentials.jwks_uri
    if credentials.subject_dn is not None:
        shown["tls_client_auth_subject_dn"] = credentials.subject_dn
    return {**shown, **more}


def _client(row: Row) -> EventClient:
    credentials = ClientCredentials(
        row["token_endpoint_auth_method"], row["secret_hash"], row["jwks"], row["tls_subject_dn"], row["jwks_uri"]
    )
    return EventClient(
        row["id"],
        row["client_id"],
        row["name"],
        credentials,
        row["scope"],
        row["set_signing_alg"],
        row["created_at"],
        row["suspended_at"],
        row["last_poll_at"],
        row["removed_at"],
        row["jwks_read_at"],
    )
