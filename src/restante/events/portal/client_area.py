"""What a signed-in client sees of itself: its backlog, its newest events, why it was refused, and a test event.

A client sees its own rows only. It sees reasons and counts of refusals, not their details: a stranger may have sent the
request, and the details are for operators.
"""

from dataclasses import dataclass

from restante.core.errors import Conflict
from restante.database.connection import Connection
from restante.database.paging import PageRequest
from restante.events.clients import refusals
from restante.events.clients.refusals import RefusalSummary
from restante.events.portal.samples import TEST_EVENT_TYPE
from restante.events.publishing import client_explanation, event_audit, listing
from restante.events.publishing.client_explanation import ClientExplanation
from restante.events.publishing.event_audit import NewAction
from restante.events.publishing.listing import EventFilter, EventView
from restante.events.publishing.publishing import enqueue, random_id
from restante.events.publishing.recipients import AddressedEvent, Recipient
from restante.events.publishing.token_claims import checked_event
from restante.events.ssf import streams
from restante.identity.callers import ClientCaller

EVENTS_SHOWN = 20
_REFUSED = "Requests of this client were refused, and it has not polled since: the reasons are below."


@dataclass(frozen=True, slots=True)
class ClientArea:
    sentence: str
    explanation: ClientExplanation
    events: list[EventView]
    refusals: list[RefusalSummary]
    has_stream: bool


def read(conn: Connection, caller: ClientCaller, polled_ms: int | None) -> ClientArea:
    """`polled_ms`: the last poll in memory, which the table may not have yet."""
    client_id = caller.client_id
    explanation = client_explanation.explain(conn, client_id, polled_ms)
    newest = listing.list_page(conn, EventFilter(client_id=client_id), PageRequest(EVENTS_SHOWN, 0))
    return ClientArea(
        _REFUSED if explanation.waiting_for == "access" else explanation.sentence,
        explanation,
        newest.items,
        refusals.last_refusals(conn, client_id),
        bool(streams.list_all(conn, caller.id)),
    )


def send_test_event(conn: Connection, caller: ClientCaller, sub: str) -> str:
    """Add a test event to the inbox of the client alone, whatever it subscribed to; return its jti."""
    if streams.list_all(conn, caller.id):
        raise Conflict("this client has a stream of Shared Signals: request a verification event instead")
    event = checked_event({TEST_EVENT_TYPE: {"note": "a test"}}, random_id(), conn.now_ms // 1000, sub)
    to = Recipient(caller.id, caller.client_id, [TEST_EVENT_TYPE], None)
    ((jti,),) = enqueue(conn, [AddressedEvent(event, [to])])
    detail = {"txn": event.txn, "types": [TEST_EVENT_TYPE], "tokens": 1}
    event_audit.record_all(conn, [NewAction(f"client:{caller.client_id}", "event.published", caller.client_id, detail)])
    return jti
