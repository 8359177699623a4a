"""The outboxes that operators can inspect: that of the server's own database and those of external databases."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from restante.core.errors import NotFound
from restante.database.database import Database
from restante.database.external.external_database import ExternalDatabase
from restante.delivery.outbox.outbox import OWN_SOURCE


@dataclass(frozen=True, slots=True)
class OutboxSource:
    name: str
    database: Database | ExternalDatabase
    # Wakes its dispatcher, after rows were reset.
    wake: Callable[[], None]


def own_outbox_source(database: Database, wake: Callable[[], None] = lambda: None) -> OutboxSource:
    return OutboxSource(OWN_SOURCE, database, wake)


def find_source(sources: Mapping[str, OutboxSource], name: str) -> OutboxSource:
    try:
        return sources[name]
    except KeyError:
        raise NotFound(f"there is no outbox {name!r}; there are {', '.join(sources)}") from None
