"""Where outbox rows lie: in the server's own database, and in any configured one. For those who look after them."""

from collections.abc import Callable, Mapping
from typing import NamedTuple

from restante.core.errors import NotFound
from restante.database.database import Database
from restante.database.outside import OutsideDatabase
from restante.delivery.outbox import OWN_SOURCE


class Source(NamedTuple):
    name: str
    database: Database | OutsideDatabase
    # Has its dispatcher look, when rows were given a new start.
    ring: Callable[[], None]


def own_source(database: Database, ring: Callable[[], None] = lambda: None) -> Source:
    return Source(OWN_SOURCE, database, ring)


def source_named(sources: Mapping[str, Source], name: str) -> Source:
    try:
        return sources[name]
    except KeyError:
        raise NotFound(f"there is no outbox {name!r}; there are {', '.join(sources)}") from None
