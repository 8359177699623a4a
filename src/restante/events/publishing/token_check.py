"""Checks the stored token of an event as its client does: against the published keys.

Operators use it when a client reports that it cannot verify a token. Nothing here has private keys.
"""

from base64 import urlsafe_b64decode
from typing import Any, Literal

import msgspec
from joserfc.errors import JoseError
from joserfc.jwk import import_key
from joserfc.jws import JWSRegistry

from restante.core.errors import NotFound
from restante.database.connection import Connection
from restante.database.queries import queries_beside
from restante.events.inbox import inbox
from restante.events.signing import event_keys
from restante.identity.grants import ALL_IDS, AllowedIds

SQL = queries_beside(__file__)

TokenVerdict = Literal["valid", "invalid", "key_not_published", "unsigned"]

SENTENCES: dict[TokenVerdict, str] = {
    "valid": "The published key verifies the signature.",
    "invalid": "The published key does not verify the signature.",
    "key_not_published": "The key of the token is no longer published: clients that fetch the keys refuse it.",
    "unsigned": "The token is not signed yet.",
}


class TokenCheck(msgspec.Struct, frozen=True):
    """`token` and `header` are None while the event is not signed."""

    verdict: TokenVerdict
    token: str | None
    header: dict[str, Any] | None

    @property
    def sentence(self) -> str:
        return SENTENCES[self.verdict]


def check(conn: Connection, jti: str, allowed: AllowedIds = ALL_IDS) -> TokenCheck:
    row = conn.one(SQL.place_of_event, jti=jti)
    if row is None or row["client_id"] not in allowed:
        raise NotFound(f"there is no event {jti}")
    text = inbox.text_of(conn, row["client"], row["id"]) or "{}"
    if text.startswith("{"):
        return TokenCheck("unsigned", None, None)
    header = msgspec.json.decode(_decoded(text.partition(".")[0]), type=dict[str, Any])
    return TokenCheck(_verdict(conn, text, header), text, header)


def _verdict(conn: Connection, token: str, header: dict[str, Any]) -> TokenVerdict:
    jwk = next((key for key in event_keys.published_jwks(conn) if key["kid"] == header.get("kid")), None)
    if jwk is None:
        return "key_not_published"
    signed, _, signature = token.rpartition(".")
    try:
        algorithm = JWSRegistry.algorithms[str(header.get("alg"))]
        is_valid = algorithm.verify(signed.encode(), _decoded(signature), import_key(jwk))
    except (JoseError, KeyError, ValueError):
        is_valid = False
    return "valid" if is_valid else "invalid"


def _decoded(text: str) -> bytes:
    return urlsafe_b64decode(text + "=" * (-len(text) % 4))
