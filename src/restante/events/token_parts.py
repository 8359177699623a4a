"""All about event tokens, put together: publishing and operators' views, the signer, its keys and their rotation.

The server adds it to what it serves and runs, and passes it what commits announce.
"""

from collections.abc import Callable, Coroutine, Iterator
from dataclasses import dataclass, field
from typing import Any

from restante.database.database import Database
from restante.database.writer import ForeignCommit
from restante.delivery.retention import Sweep
from restante.events import event_keys
from restante.events.key_rotation import KeyRotation, RotationOptions
from restante.events.publishing import EventsToSign
from restante.events.routes_admin_events import AdminEventRoutes
from restante.events.routes_keys import KeyRoutes
from restante.events.sign_pool import SignPool
from restante.events.signer import Signer, SignerOptions
from restante.identity.master_key import MasterKey
from restante.web.routes import Route


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenOptions:
    """`processes` is how many sign at once, 0 for one a core; `is_shared` where several nodes have one database."""

    signer: SignerOptions = field(default_factory=SignerOptions)
    rotation: RotationOptions = field(default_factory=RotationOptions)
    default_alg: str = "PS256"
    processes: int = 0
    is_shared: bool = False


class EventTokens:
    def __init__(self, database: Database, master_key: MasterKey, options: TokenOptions) -> None:
        self._database = database
        self._options = options
        pool = SignPool(options.processes)
        self.signer = Signer(database, master_key, pool, options.signer, is_shared=options.is_shared)
        self.rotation = KeyRotation(database, master_key, options.rotation)
        self.published = 0

    def routes(self) -> list[Route]:
        keys = KeyRoutes(self._database, self.rotation, self._options.default_alg)
        return [*AdminEventRoutes(self._database).routes(), *keys.routes()]

    def services(self) -> Iterator[tuple[str, Callable[[], Coroutine[Any, Any, None]]]]:
        """What runs for as long as the server does."""
        yield "event signer", self.signer.run
        yield "event key rotation", self.rotation.run

    def sweeps(self) -> list[Sweep]:
        return [event_keys.forget_retired]

    def hear(self, event: object) -> None:
        """Pass on what a commit announced, if it concerns tokens. Runs in the event loop."""
        match event:
            case EventsToSign(rows=rows):
                self.published += rows
                self.signer.ring()
            case ForeignCommit():
                self.signer.ring()
