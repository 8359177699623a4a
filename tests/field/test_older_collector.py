"""The day of a collector that uses the older API, against a real server process, on both engines."""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import ENGINES
from tests.faults.server_process import TIMEOUT_SECONDS
from tests.field.older_collector import OlderCollector
from tests.field.site_operator import LATE_MINER, MINER, Operator, running_site


@pytest.fixture(params=ENGINES)
def operator(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Operator]:
    with running_site(request.param, request, tmp_path) as operator:
        yield operator


@pytest.fixture(params=[False, True], ids=["key", "key-and-bearer"])
def collector(request: pytest.FixtureRequest, operator: Operator) -> Iterator[OlderCollector]:
    miners = [str(MINER), str(LATE_MINER)]
    collector = OlderCollector(operator.url, operator.token, operator.site_id, miners, sends_bearer=request.param)
    yield collector
    collector.close()


def process_until_fetched(collector: OlderCollector, **how: Any) -> list[str]:
    """Process commands, as soon as there are any."""
    deadline = time.monotonic() + TIMEOUT_SECONDS
    while not (statuses := collector.process(**how)):
        assert time.monotonic() < deadline, "no command was dispatched"
        time.sleep(0.05)
    return statuses


def test_day_of_an_older_collector(operator: Operator, collector: OlderCollector) -> None:
    # Telemetry; the second miner is not registered yet.
    assert collector.upload()
    listed = operator.get(f"/telemetry?site_id={operator.site_id}")["items"]
    assert [(each["miner_id"], each["miner_known"]) for each in listed] == [(MINER, True), (LATE_MINER, False)]
    assert listed[0]["record"]["hashrate"] == 102.3
    operator.add_miner(LATE_MINER)
    assert operator.get(f"/telemetry/{LATE_MINER}")["miner_known"]

    # Nothing to do, then a command.
    assert collector.process() == []
    fan = operator.command("SET_FAN", speed=80)
    assert process_until_fetched(collector) == ["completed"]
    shown = operator.get(f"/commands/{fan}")
    assert (shown["status"], shown["result_message"]) == ("succeeded", "done")
    assert collector.miners.executed[str(MINER)] == [("set_fan", {"speed": 80})]

    # A command that fails is offered again; the collector does not run it twice.
    restart = operator.command("MINER_RESTART")
    assert process_until_fetched(collector, fails=True) == ["failed"]
    assert process_until_fetched(collector) == ["skipped"]
    assert operator.get(f"/commands/{restart}")["status"] == "failed"

    # A lost result: the lease ends and the command is offered again.
    assert collector.refused == 0
    operator.shorten_leases()
    enable = operator.command("HASHING_ENABLE")
    assert process_until_fetched(collector, is_result_lost=True) == ["completed"]
    while operator.get(f"/commands/{enable}")["status"] != "failed":
        assert process_until_fetched(collector) == ["skipped"]
    assert operator.get(f"/commands/{enable}")["result_code"] == "OUTCOME_UNKNOWN"
    assert [name for name, _ in collector.miners.executed[str(MINER)]] == ["set_fan", "restart", "enable"]


def test_rule_fires_on_an_upload_of_an_older_collector(operator: Operator, collector: OlderCollector) -> None:
    operator.post(
        "/rules",
        name="too hot",
        site_id=operator.site_id,
        trigger_type="threshold",
        trigger_metric="temp_max",
        trigger_operator=">",
        trigger_value=90,
        action_type="stop",
    )
    assert collector.upload(temperature=71.5)
    assert collector.process() == []
    assert collector.upload(temperature=97.5)
    assert process_until_fetched(collector) == ["completed"]
    assert collector.miners.executed[str(MINER)][0][0] == "disable"
    assert collector.miners.executed[str(LATE_MINER)] == []
