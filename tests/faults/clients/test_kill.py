"""Clients and their servers are killed in turn with SIGKILL: every signal is handled at least once and in order, every
command is executed at most once and reported truthfully, every event is stored before it is acknowledged.

RESTANTE_CLIENT_KILLS sets how often; `make test` has time for a few. The same checks find planted bugs.
"""

import os
import sys
from pathlib import Path

import pytest

from tests.faults.clients.campaign import ClientCampaign, Plan
from tests.faults.clients.collector_campaign import CollectorCampaign
from tests.faults.clients.device_campaign import DeviceCampaign
from tests.faults.clients.receiver_campaign import ReceiverCampaign

pytestmark = pytest.mark.slow

KILLS = int(os.environ.get("RESTANTE_CLIENT_KILLS", "4"))


@pytest.mark.parametrize("kind", [DeviceCampaign, CollectorCampaign, ReceiverCampaign])
def test_kills_of_both_ends_break_no_promise(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], kind: type[ClientCampaign]
) -> None:
    campaign = kind(tmp_path, Plan(seed=2, kills=KILLS))
    found = campaign.run()
    with capsys.disabled():
        sys.stdout.write(f"\n{kind.__name__}: {campaign.sent} sent, kills {campaign.kills}, {campaign.summary()}\n")
    assert found.violations == []
    assert sum(campaign.kills.values()) == KILLS
    assert campaign.sent >= KILLS


@pytest.mark.parametrize(
    ("kind", "bug", "violation"),
    [
        (DeviceCampaign, "cursor_before_handler", "lost"),
        (CollectorCampaign, "ack_before_execution", "untruthful"),
        (CollectorCampaign, "execution_not_recorded", "executed_again"),
        (ReceiverCampaign, "acknowledge_before_store", "lost"),
    ],
)
def test_planted_bug_is_found(tmp_path: Path, kind: type[ClientCampaign], bug: str, violation: str) -> None:
    found = kind(tmp_path, Plan(seed=1, kills=0, bug=bug)).run()
    assert violation in found.kinds()
