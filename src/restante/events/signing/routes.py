"""Routes of event signing keys: the public JWKS, and listing, rotation and withdrawal for operators.

Some JOSE libraries (node-jose) refuse a whole JWKS that holds a key of a type they do not know. Two views leave such
keys out: the keys of one algorithm, and the keys of one client.
"""

from typing import Annotated, Any

import msgspec
from msgspec import Meta

from restante.database.connection import Connection
from restante.database.database import Database
from restante.events.clients import clients
from restante.events.response_format import RESPONSE_FORMAT
from restante.events.signing import event_keys
from restante.events.signing.event_keys import EventKeyView
from restante.events.signing.jws import ALGORITHMS
from restante.events.signing.key_rotation import KeyRotation, RotatedEventKey, WithdrawnEventKey
from restante.identity.grants import Area
from restante.web.request import ApiRequest
from restante.web.response import JSON, ApiResponse
from restante.web.routes import Access, Query, Route, RouteGroup

TAG = "event keys"
JWKS_PATH = "/jwks.json"
CLIENT_JWKS_PATH = "/clients/{client_id}/jwks.json"
PATH = "/admin/events/keys"
# Long enough to avoid most requests, short enough for clients to drop a withdrawn key soon.
JWKS_MAX_AGE_SECONDS = 300

_BY_ALGORITHM = (Query("alg", "only the keys of this algorithm", {"type": "string", "enum": list(ALGORITHMS)}),)


class KeySet(msgspec.Struct):
    """A JWKS."""

    keys: list[dict[str, Any]]


class EventKeyRotationBody(msgspec.Struct, forbid_unknown_fields=True):
    alg: Annotated[str, Meta(extra_json_schema={"enum": list(ALGORITHMS)})] | None = None


class EventKeyList(msgspec.Struct):
    items: list[EventKeyView]


def client_jwks(conn: Connection, client_id: str) -> list[dict[str, Any]]:
    """Return the public keys that verify the events of the client."""
    client = clients.get(conn, client_id)
    return event_keys.published_jwks(conn, clients.event_algorithms(client.scope, client.set_signing_alg))


def _jwks_response(keys: list[dict[str, Any]]) -> ApiResponse:
    cached = (b"cache-control", b"public, max-age=%d" % JWKS_MAX_AGE_SECONDS)
    return ApiResponse(200, (JSON, cached), msgspec.json.encode(KeySet(keys)))


class EventKeyRoutes:
    def __init__(self, database: Database, rotation: KeyRotation, default_alg: str) -> None:
        self._database = database
        self._rotation = rotation
        self._default_alg = default_alg

    def routes(self) -> list[Route]:
        group = RouteGroup(TAG, RESPONSE_FORMAT, area=Area.events)

        withdraw = PATH + "/{kid}/withdraw"
        return [
            group.get(
                JWKS_PATH,
                self.jwks,
                Access.open,
                "The public keys that verify event tokens",
                query=_BY_ALGORITHM,
                errors=(400,),
            ),
            group.get(
                CLIENT_JWKS_PATH,
                self.client_jwks,
                Access.open,
                "The public keys that verify a client's event tokens",
                errors=(404,),
            ),
            group.get(PATH, self.list_keys, Access.read, "List the keys that sign event tokens"),
            group.post(
                PATH + "/rotate",
                self.rotate,
                Access.administer,
                "Rotate the signing key",
                status=201,
                body_optional=True,
                examples=({"alg": "PS256"},),
            ),
            group.post(withdraw, self.withdraw, Access.administer, "Withdraw a leaked key", errors=(404, 409)),
        ]

    async def jwks(self, request: ApiRequest) -> KeySet | ApiResponse:
        """A JWKS (RFC 7517) with the keys that sign now, that will sign, and whose tokens may still be in use.

        RSA keys come first, then EC, then OKP. `alg` selects the keys of one algorithm.
        """
        alg = request.query_text("alg")
        algorithms = ALGORITHMS if alg is None else (event_keys.check_algorithm(alg),)
        return _jwks_response(await self._database.read(event_keys.published_jwks, algorithms))

    async def client_jwks(self, request: ApiRequest) -> KeySet | ApiResponse:
        """As `/jwks.json`, with only those keys that sign the events of this client."""
        return _jwks_response(await self._database.read(client_jwks, request.path_text("client_id")))

    async def list_keys(self, request: ApiRequest) -> EventKeyList:
        """List all keys, newest first, including withdrawn ones."""
        request.require_all("the keys sign the events of all clients")
        return EventKeyList(await self._database.read(event_keys.list_views))

    async def rotate(self, request: ApiRequest, body: EventKeyRotationBody) -> RotatedEventKey:
        """Publish a new key now, and sign with it after the lead, so that clients can fetch it before."""
        request.require_all("the keys sign the events of all clients")
        alg = self._default_alg if body.alg is None else event_keys.check_algorithm(body.alg)
        return await self._rotation.rotate(alg, request.actor)

    async def withdraw(self, request: ApiRequest) -> WithdrawnEventKey:
        """Stop publishing a leaked key at once, and sign with another one.

        Tokens of the key that no client received are signed again. Delivered tokens never change; clients that fetch
        the keys again will refuse them.
        """
        request.require_all("the keys sign the events of all clients")
        return await self._rotation.withdraw(request.path_text("kid"), request.actor)
