"""The keys event tokens are verified with, for everybody, and their rotation, for administrators."""

from typing import Any

import msgspec

from restante.database.database import Database
from restante.events import event_keys
from restante.events.event_keys import KeyView
from restante.events.key_rotation import KeyRotation, Rotated, Withdrawn
from restante.events.wire import SHAPE
from restante.web.answer import JSON, Answer
from restante.web.ask import Ask
from restante.web.routes import Access, Route

TAG = "event keys"
JWKS_PATH = "/jwks.json"
PATH = "/admin/events/keys"
# Long enough to spare us most of the questions, short enough for a key that was withdrawn.
JWKS_MAX_AGE_SECONDS = 300


class KeySet(msgspec.Struct):
    """A JWKS."""

    keys: list[dict[str, Any]]


class RotateBody(msgspec.Struct, forbid_unknown_fields=True):
    alg: str | None = None


class KeyList(msgspec.Struct):
    items: list[KeyView]


class KeyRoutes:
    def __init__(self, database: Database, rotation: KeyRotation, default_alg: str) -> None:
        self._database = database
        self._rotation = rotation
        self._default_alg = default_alg

    def routes(self) -> list[Route]:
        def route(method: str, path: str, handler: Any, access: Access, summary: str, **more: Any) -> Route:
            return Route(method, path, handler, access, summary, shape=SHAPE, tag=TAG, **more)

        withdraw = PATH + "/{kid}/withdraw"
        return [
            route("GET", JWKS_PATH, self.jwks, Access.open, "The keys event tokens are verified with"),
            route("GET", PATH, self.list_keys, Access.read, "List the keys event tokens are signed with"),
            route(
                "POST",
                PATH + "/rotate",
                self.rotate,
                Access.administer,
                "Have a new key sign, after its lead",
                status=201,
                body_optional=True,
            ),
            route("POST", withdraw, self.withdraw, Access.administer, "Withdraw a leaked key", refusals=(404, 409)),
        ]

    async def jwks(self, _ask: Ask) -> KeySet | Answer:
        """As a JWKS (RFC 7517): the keys that sign, those that will, and those whose tokens may still be around."""
        keys = await self._database.read(event_keys.published)
        cached = (b"cache-control", b"public, max-age=%d" % JWKS_MAX_AGE_SECONDS)
        return Answer(200, (JSON, cached), msgspec.json.encode(KeySet(keys)))

    async def list_keys(self, _ask: Ask) -> KeyList:
        """Newest first, withdrawn ones too."""
        return KeyList(await self._database.read(event_keys.views))

    async def rotate(self, ask: Ask, body: RotateBody) -> Rotated:
        """The new key is published now and signs after the lead, so that everybody has seen it before."""
        alg = self._default_alg if body.alg is None else event_keys.checked_algorithm(body.alg)
        return await self._rotation.rotate(alg, ask.actor)

    async def withdraw(self, ask: Ask) -> Withdrawn:
        """The key is published no more, from this moment, and another signs.

        Tokens it signed that nobody was handed yet are signed again. Those that were handed out stay as they are: their
        bytes never change, and who fetches the keys anew will refuse them.
        """
        return await self._rotation.withdraw(ask.path_text("kid"), ask.actor)
