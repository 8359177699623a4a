from restante.core.events.poll_acks import Fault, verdicts_of
from restante.database.database import Database
from restante.events.inbox import inbox
from restante.events.inbox.inbox import InboxPollRequest
from restante.events.metrics import inbox_counts
from restante.events.push.component import PushComponent
from restante.identity.master_key import MasterKey
from tests.components import metric_values
from tests.events import inbox_fixture
from tests.events.default_options import inbox_options, push_options, subscription_options
from tests.events.poll_harness import EventsHarness


def test_inbox_counts_each_event_under_one_status(database: Database) -> None:
    client = database.write_now(inbox_fixture.add_client)
    assert database.read_now(inbox_counts) == {"unsigned": 0, "waiting": 0, "delivered": 0, "errored": 0}
    database.write_now(inbox_fixture.put_ready, client.id, "a", "b", "c", "d")
    database.write_now(inbox_fixture.put_unsigned, client.id, "e")
    database.write_now(inbox.poll_inbox, inbox_options(), InboxPollRequest(client.id, 3))
    database.write_now(
        inbox.poll_inbox, inbox_options(), InboxPollRequest(client.id, 0, verdicts_of([], {"a": Fault("e", "d")}))
    )
    assert database.read_now(inbox_counts) == {"unsigned": 1, "waiting": 1, "delivered": 2, "errored": 1}


async def test_polls_and_pushes_are_counted(database: Database) -> None:
    client = await database.write(inbox_fixture.add_client)
    harness = EventsHarness(database)
    await database.write(inbox_fixture.put_ready, client.id, "a")
    await harness.start(client.id).sets()
    await harness.start(client.id, ack=("a",)).sets()
    parked_call = harness.start(client.id, waits=True)
    push = PushComponent(database, MasterKey(bytes(32)), push_options(), subscription_options(database))
    push.pusher.counters.delivered = 3
    await harness.component.read_metrics()
    await push.read_metrics()
    samples = metric_values(harness.component) | metric_values(push)
    assert samples["restante_event_polls", "events"] == 1
    assert samples["restante_event_polls", "idle"] == 1
    assert samples["restante_events_delivered",] == samples["restante_events_acknowledged",] == 1
    assert samples["restante_parked_event_polls",] == 1
    assert samples["restante_event_inbox", "delivered"] == 0
    assert samples["restante_event_pushes", "delivered"] == 3
    assert samples["restante_event_pushes", "failed"] == 0
    assert samples["restante_event_pushes_given_up",] == samples["restante_event_circuits_open",] == 0
    await push.finish()
    harness.poll.disconnect(parked_call.parked)
