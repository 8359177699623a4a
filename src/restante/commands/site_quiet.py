"""Until when a site is quiet: before that moment nothing is due there, so that claims need not look.

    no command expires · no lease runs out · no back-off or deferral ends

It is a bound, and may be sooner than what it bounds: a lease that was acknowledged in time leaves it where it was. When
it has passed somebody looks (`leases`), and writes down what is true then: about once in a lease's time.

Must always hold: whoever gives a command a moment that is sooner says so in the same transaction, with the site locked.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence

import msgspec

from restante.database.connection import Connection
from restante.database.queries import queries_beside

SQL = queries_beside(__file__)

# By site; None: nothing is ever due as things are.
Quiet = dict[int, int | None]

_encode = msgspec.json.Encoder().encode


def quiet_of(conn: Connection, sites: Sequence[int]) -> Callable[[], Quiet]:
    """What is known of the sites; a site of which nothing is known is not in it. Read now, told when called for."""
    found = conn.values_later(SQL.quiet, sites=_encode(sites).decode())
    return lambda: dict(found())


def is_quiet(known: Quiet, site_id: int, now_ms: int) -> bool:
    if site_id not in known:
        return False
    until = known[site_id]
    return until is None or until > now_ms


def note_quiet(conn: Connection, known: Quiet, found: Mapping[int, int | None]) -> None:
    """Write down what was found, where it is not what was known. Of a site without any commands nothing need be: a poll
    there writes nothing."""
    news = [(site_id, until) for site_id, until in found.items() if known.get(site_id) != until]
    conn.run_rows(SQL.put_quiet, news)


def disturb(conn: Connection, moments: Iterable[tuple[int, int]]) -> None:
    """At these sites something will be due at these moments."""
    conn.run_rows(SQL.disturb, [(at, site_id) for site_id, at in moments])
