"""The day of a collector in the field, against a real server process, on both engines."""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import ENGINES
from tests.faults.server_process import TIMEOUT_SECONDS
from tests.field.collector import Collector
from tests.field.site_operator import LATE_MINER, MINER, Operator, running_site


@pytest.fixture(params=ENGINES)
def operator(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Operator]:
    with running_site(request.param, request, tmp_path) as operator:
        yield operator


@pytest.fixture
def collector(operator: Operator) -> Iterator[Collector]:
    miners = [str(MINER), str(LATE_MINER)]
    collector = Collector(operator.url, operator.token, operator.site_id, miners)
    yield collector
    collector.close()


def fetch_again(collector: Collector) -> list[str]:
    """Poll until there is a command: after a back-off, or the end of a lease."""
    deadline = time.monotonic() + TIMEOUT_SECONDS
    while not (started := collector.fetch()):
        assert time.monotonic() < deadline, "no command was dispatched"
        time.sleep(0.05)
    return started


def test_day_of_a_collector(operator: Operator, collector: Collector) -> None:
    # Telemetry and a thermal shutdown. The inventory is late: both are kept, and linked when the miner is registered.
    reported = collector.report(temperature=97.5)
    assert (reported["success"], reported["unknown_miner_records"]) == (True, 1)
    reported = collector.report_shutdown(str(LATE_MINER), 97.5)
    assert (reported["status"], reported["unknown_miner_events"]) == ("success", 1)
    unknown = f"/safety-events?site_id={operator.site_id}&miner_known=false"
    assert [(each["miner_id"], each["reason"]) for each in operator.get(unknown)["items"]] == [(LATE_MINER, "97.5C")]
    operator.add_miner(LATE_MINER)
    assert operator.get(unknown)["items"] == []
    for miner_id in (MINER, LATE_MINER):
        shown = operator.get(f"/telemetry/{miner_id}")
        record = shown["latest"]["record"]
        assert (shown["miner_known"], record["temp_max"], record["hashrate"]) == (True, 97.5, 102.3)

    # Nothing to do, then a command.
    assert collector.fetch() == []
    fan = operator.command("SET_FAN", speed=80)
    assert (collector.fetch(), collector.finish()) == ([fan], ["completed"])
    shown = operator.get(f"/commands/{fan}")
    assert (shown["status"], shown["result_message"]) == ("succeeded", "done")
    assert shown["after_snapshot"] == {"online": True, "hashrate_ghs": 0.0}
    assert collector.miners.executed[str(MINER)] == [("set_fan", {"speed": 80})]

    # While a miner is busy, the collector would drop its next command; another miner is free.
    disable, enable = operator.command("HASHING_DISABLE"), operator.command("HASHING_ENABLE")
    assert collector.fetch() == [disable]
    frequency = operator.command("SET_FREQUENCY", miner_id=LATE_MINER, frequency=545)
    assert (collector.fetch(), collector.fetch()) == ([frequency], [])
    assert operator.get(f"/commands/{enable}/why")["miner_command_id"] == disable
    assert collector.finish() == ["completed", "completed"]
    assert (collector.fetch(), collector.finish()) == ([enable], ["completed"])
    assert operator.get(f"/commands/{enable}")["attempt"] == 1

    # A command that fails is offered again; the collector does not run it twice, and the failure becomes final.
    restart = operator.command("MINER_RESTART")
    assert (collector.fetch(fails=True), collector.finish()) == ([restart], ["failed"])
    assert (fetch_again(collector), collector.finish()) == ([restart], ["skipped"])
    shown = operator.get(f"/commands/{restart}")
    assert (shown["status"], shown["result_code"], shown["result_message"]) == ("failed", "1", "no answer")

    # A lost ACK: the lease ends, the redelivery is a duplicate, and nobody knows the result.
    assert (collector.dropped, collector.refused) == ([], 0)
    operator.shorten_leases()
    power = operator.command("POWER_MODE", mode="LOW")
    assert (collector.fetch(), collector.finish(is_ack_lost=True)) == ([power], ["completed"])
    while operator.get(f"/commands/{power}")["status"] != "failed":
        assert (fetch_again(collector), collector.finish()) == ([power], ["skipped"])
    shown = operator.get(f"/commands/{power}")
    assert (shown["result_code"], shown["result_message"]) == ("OUTCOME_UNKNOWN", "executed once, its result was lost")
    executed = [name for name, _ in collector.miners.executed[str(MINER)]]
    assert executed == ["set_fan", "disable", "enable", "restart", "power_mode"]
