"""All about pushing, put together: what clients subscribe to, where they are notified, and the service that does it."""

from restante.database.connection import Connection
from restante.database.database import Database
from restante.database.writer import ForeignCommit
from restante.events import push_queue
from restante.events.push import Pusher, PushOptions
from restante.events.receivers import PushDue
from restante.events.routes_subscriptions import SubscriptionRoutes
from restante.identity.master_key import MasterKey
from restante.web.routes import Route


class EventPush:
    def __init__(
        self, database: Database, master_key: MasterKey, options: PushOptions, bases: list[str], public_url: str | None
    ) -> None:
        self._database = database
        self._options = options
        self._bases = bases
        self._public_url = public_url
        self.pusher = Pusher(database, master_key, options)

    def routes(self) -> list[Route]:
        return SubscriptionRoutes(self._database, self.pusher.client, self._bases, self._public_url).routes()

    def hear(self, event: object) -> None:
        """Pass on what a commit announced, if it concerns pushing. Runs in the event loop."""
        if isinstance(event, PushDue | ForeignCommit):
            self.pusher.ring()

    def open_circuits(self, conn: Connection) -> int:
        """How many receivers are spared now, for the metrics."""
        return push_queue.open_circuits(conn, self._options.rules.circuit_failures)

    def close(self) -> None:
        self.pusher.close()
