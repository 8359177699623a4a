"""Public keys that a client publishes at an address (`jwks_uri`): read by the server, and stored with the client.

    registration, rotation            read now; an address without a usable key is refused
    use, the stored keys are old      read again after an hour
    use, no stored key fits           read again at once, at most once a minute

Invariants:
- While the address cannot be read, the stored keys verify for a day. Then none verifies.
- A request with a wrong signature causes at most one read of an address in a minute on each node.
- A request that is verified after a read uses the keys of that read, also if it had read its client before.
"""

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass

import msgspec
import structlog

from restante.core.errors import BadInput
from restante.core.events.callback_url import CALLBACK_URL_EXPECTED, parse_callback_url
from restante.database.database import Database
from restante.events.clients import clients
from restante.events.clients.authentication import client_keys
from restante.events.clients.clients import EventClient, PublishedKeys
from restante.events.outgoing_http import NotReachable, OutgoingClient
from restante.identity.jwt.jwks import JWKS_BYTES_MAX

log = structlog.get_logger()

FIELD = "jwks_uri"
FRESH_SECONDS = 3600
USABLE_SECONDS = 24 * 3600
READ_INTERVAL_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class _Reading:
    began: float
    task: "asyncio.Task[EventClient | None]"


class RemoteKeys:
    """Used on the event loop's thread."""

    def __init__(self, database: Database, http: OutgoingClient, clock: Callable[[], float] = time.monotonic) -> None:
        self._database = database
        self._http = http
        self._clock = clock
        # The last reading of each client's address: not repeated within the interval, and shared while it runs.
        self._readings: dict[int, _Reading] = {}

    async def read(self, uri: str) -> PublishedKeys:
        """Read the keys at the address; raise BadInput if it has no usable key."""
        try:
            url = parse_callback_url(uri)
        except ValueError:
            raise BadInput(FIELD, CALLBACK_URL_EXPECTED) from None
        try:
            document = msgspec.json.decode(await self._http.get(url, JWKS_BYTES_MAX))
        except NotReachable as error:
            raise BadInput(FIELD, f"an address that can be read: {error}") from None
        except (msgspec.MsgspecError, ValueError, RecursionError):
            raise BadInput(FIELD, "the address of a JWKS: the document is not JSON") from None
        return PublishedKeys(uri, client_keys.usable_jwks(document, FIELD))

    async def current(self, client: EventClient, now_ms: int) -> EventClient:
        """The client with keys that are fresh, or as fresh as can be had; without keys if they are too old."""
        if client.credentials.jwks_uri is None:
            return client
        if self._age_seconds(client, now_ms) < FRESH_SECONDS:
            return client
        client = await self.newer(client) or client
        return client if self._age_seconds(client, now_ms) < USABLE_SECONDS else client.without_keys()

    async def newer(self, client: EventClient) -> EventClient | None:
        """The client with newer keys than the caller has; None if there are none."""
        if client.credentials.jwks_uri is None:
            return None
        reading = self._readings.get(client.id)
        if reading is not None and not reading.task.done():
            return await asyncio.shield(reading.task)
        if reading is not None and self._clock() - reading.began < READ_INTERVAL_SECONDS:
            return await self._stored_since(client)
        task = asyncio.create_task(self._read_and_store(client.client_id, client.credentials.jwks_uri))
        self._readings[client.id] = _Reading(self._clock(), task)
        return await asyncio.shield(task)

    async def _stored_since(self, client: EventClient) -> EventClient | None:
        """The client with keys that were stored after the caller had read it from the database; None without any."""
        stored = await self._database.read(clients.find, client.client_id)
        if stored is None or not stored.credentials.is_same_registration(client.credentials):
            return None
        is_newer = stored.jwks_read_at != client.jwks_read_at or stored.credentials.jwks != client.credentials.jwks
        return stored if is_newer else None

    async def _read_and_store(self, client_id: str, uri: str) -> EventClient | None:
        try:
            published = await self.read(uri)
        except BadInput as error:
            log.warning("keys of client cannot be read", client_id=client_id, problem=error.message)
            return None
        return await self._database.write(clients.store_published_keys, client_id, published)

    @staticmethod
    def _age_seconds(client: EventClient, now_ms: int) -> float:
        return (now_ms - (client.jwks_read_at or 0)) / 1000
