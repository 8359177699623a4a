"""The metrics of event polling. What was counted is read from the totals; what waits, from the database, when somebody
asks. No label carries a client: their number is not bounded."""

from collections.abc import Iterator, Mapping

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from restante.database.connection import Connection
from restante.database.database import Database
from restante.database.queries import queries_beside
from restante.events.parts import EventsParts
from restante.events.push_parts import EventPush

SQL = queries_beside(__file__)

EVENTS_METRICS = {
    "restante_event_polls": "Polls for events answered, by outcome.",
    "restante_events_delivered": "Events handed to clients, each time they were.",
    "restante_events_acknowledged": "Events that clients acknowledged.",
    "restante_events_errored": "Events that clients could not use.",
    "restante_parked_event_polls": "Polls that wait for an event now.",
    "restante_event_inbox": "Events in the inboxes, by how they stand.",
    "restante_events_published": "Events published through this server, counted for each client.",
    "restante_events_signed": "Event tokens signed.",
    "restante_events_sign_failures": "Times an event could not be signed, because its key cannot be opened.",
    "restante_event_signing_seconds": "CPU time that the signing processes spent signing.",
    "restante_event_pushes": "Events pushed to receivers, by outcome.",
    "restante_event_pushes_given_up": "Events that are no longer pushed and left to polling.",
    "restante_event_circuits_open": "Receivers that failed several times in a row and are spared.",
}


def standings(conn: Connection) -> dict[str, int]:
    """How many events are to be signed, wait to be delivered, were delivered and are in error; each in one only."""
    counts, sent = conn.one(SQL.counts), conn.one(SQL.delivered)
    if counts is None or sent is None:
        return {}
    unsigned, delivered = int(counts["unsigned"]), int(sent["delivered"])
    waiting = int(counts["open"]) - unsigned - delivered
    return {"unsigned": unsigned, "waiting": waiting, "delivered": delivered, "errored": int(counts["errored"])}


class EventsMetrics(Collector):
    """Register it, and have it refreshed before the registry is read."""

    def __init__(self, database: Database, events: EventsParts, push: EventPush) -> None:
        self._database = database
        self._events = events
        self._push = push
        self._open_circuits = 0
        self._standings: dict[str, int] = {}

    async def refresh(self) -> None:
        self._standings = await self._database.read(standings)
        self._open_circuits = await self._database.read(self._push.open_circuits)

    def collect(self) -> Iterator[Metric]:
        totals = self._events.totals
        polls = {
            "idle": totals.idle,
            "events": totals.with_events,
            "acknowledge_only": totals.acknowledge_only,
            "rate_limited": totals.rate_limited,
        }
        yield _family(CounterMetricFamily, "restante_event_polls", polls, "outcome")
        yield _family(CounterMetricFamily, "restante_events_delivered", {"": totals.delivered})
        yield _family(CounterMetricFamily, "restante_events_acknowledged", {"": totals.acknowledged})
        yield _family(CounterMetricFamily, "restante_events_errored", {"": totals.errored})
        parked = self._events.poll.bell.waiting_count
        yield _family(GaugeMetricFamily, "restante_parked_event_polls", {"": parked})
        yield _family(GaugeMetricFamily, "restante_event_inbox", self._standings, "status")
        tokens, signed = self._events.tokens, self._events.tokens.signer.totals
        yield _family(CounterMetricFamily, "restante_events_published", {"": tokens.published})
        yield _family(CounterMetricFamily, "restante_events_signed", {"": signed.signed})
        yield _family(CounterMetricFamily, "restante_events_sign_failures", {"": signed.failed})
        yield _family(CounterMetricFamily, "restante_event_signing_seconds", {"": signed.cpu_seconds})
        pushed = self._push.pusher.totals
        outcomes = {"delivered": pushed.delivered, "refused": pushed.refused, "failed": pushed.failed}
        yield _family(CounterMetricFamily, "restante_event_pushes", outcomes, "outcome")
        yield _family(CounterMetricFamily, "restante_event_pushes_given_up", {"": pushed.given_up})
        yield _family(GaugeMetricFamily, "restante_event_circuits_open", {"": self._open_circuits})

    def describe(self) -> list[Metric]:
        return []


def _family(
    kind: type[CounterMetricFamily] | type[GaugeMetricFamily],
    name: str,
    values: Mapping[str, float],
    label: str | None = None,
) -> Metric:
    family = kind(name, EVENTS_METRICS[name], labels=[label] if label else None)
    for value_of_label, value in values.items():
        family.add_metric([value_of_label] if label else [], value)
    return family
