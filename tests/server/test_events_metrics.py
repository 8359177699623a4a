import re
from pathlib import Path

from restante.core.acknowledgement import Fault, verdicts_of
from restante.database.database import Database
from restante.events import inbox
from restante.events.inbox import InboxOptions, Wish
from restante.events.push import PushOptions
from restante.events.push_parts import EventPush
from restante.identity.master_key import MasterKey
from restante.server.events_metrics import EVENTS_METRICS, EventsMetrics, standings
from tests.events import bank
from tests.events.polling import Desk

OPERATIONS = Path(__file__).parents[2] / "docs" / "operations.md"


def test_each_event_stands_in_one_place(database: Database) -> None:
    client = database.write_now(bank.add_client)
    assert database.read_now(standings) == {"unsigned": 0, "waiting": 0, "delivered": 0, "errored": 0}
    database.write_now(bank.put_ready, client.id, "a", "b", "c", "d")
    database.write_now(bank.put_unsigned, client.id, "e")
    database.write_now(inbox.take, InboxOptions(), Wish(client.id, 3))
    database.write_now(inbox.take, InboxOptions(), Wish(client.id, 0, verdicts_of([], {"a": Fault("e", "d")})))
    assert database.read_now(standings) == {"unsigned": 1, "waiting": 1, "delivered": 2, "errored": 1}


async def test_what_was_done_is_counted(database: Database) -> None:
    client = await database.write(bank.add_client)
    desk = Desk(database)
    await database.write(bank.put_ready, client.id, "a")
    await desk.ask(client.id).sets()
    await desk.ask(client.id, ack=("a",)).sets()
    waiting = desk.ask(client.id, waits=True)
    push = EventPush(database, MasterKey(bytes(32)), PushOptions(), [""], None)
    push.pusher.totals.delivered = 3
    metrics = EventsMetrics(database, desk.parts, push)
    await metrics.refresh()
    samples = {
        (sample.name, *sample.labels.values()): sample.value
        for family in metrics.collect()
        for sample in family.samples
    }
    assert samples["restante_event_polls_total", "events"] == 1
    assert samples["restante_event_polls_total", "idle"] == 1
    assert samples["restante_events_delivered_total",] == samples["restante_events_acknowledged_total",] == 1
    assert samples["restante_parked_event_polls",] == 1
    assert samples["restante_event_inbox", "delivered"] == 0
    assert samples["restante_event_pushes_total", "delivered"] == 3
    assert samples["restante_event_pushes_total", "failed"] == 0
    assert samples["restante_event_pushes_given_up_total",] == samples["restante_event_circuits_open",] == 0
    assert metrics.describe() == []
    push.close()
    desk.poll.abandon(waiting.parked)


def test_every_metric_is_documented() -> None:
    rows = set(re.findall(r"^\| `(\w+?)(?:_total)?[`{]", OPERATIONS.read_text("utf-8"), re.MULTILINE))
    assert set(EVENTS_METRICS) <= rows
