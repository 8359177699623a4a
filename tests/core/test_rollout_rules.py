from dataclasses import replace
from typing import Any

import pytest

from restante.core.rollout_rules import Decision, RolloutRules, WaveProgress, decide

RULES = RolloutRules(success_percent=90, error_percent=5, min_wave_seconds=60, max_wave_seconds=600)
WAVE = WaveProgress(planned=100, succeeded=90, failed=0, waiting=10, is_handed_out=True, elapsed_seconds=60)


@pytest.mark.parametrize(
    ("changed", "decision"),
    [
        ({}, Decision.advance),
        ({"elapsed_seconds": 59.9}, Decision.wait),
        ({"succeeded": 89, "waiting": 11}, Decision.wait),
        ({"succeeded": 89, "waiting": 11, "elapsed_seconds": 600}, Decision.pause),
        ({"is_handed_out": False}, Decision.wait),
        ({"failed": 5, "waiting": 5}, Decision.advance),
        ({"failed": 6, "waiting": 4}, Decision.pause),
        # While the wave is handed out, failures count against its planned size.
        ({"is_handed_out": False, "succeeded": 0, "failed": 5, "waiting": 0}, Decision.wait),
        ({"is_handed_out": False, "succeeded": 0, "failed": 6, "waiting": 0}, Decision.pause),
        # Failures that an operator accepted count neither as failures nor as missing successes.
        ({"succeeded": 90, "failed": 10, "waiting": 0, "accepted_failures": 10}, Decision.advance),
        ({"succeeded": 80, "failed": 20, "waiting": 0, "accepted_failures": 10}, Decision.pause),
        # A wave without items has nothing to wait for.
        ({"planned": 0, "succeeded": 0, "waiting": 0}, Decision.advance),
    ],
)
def test_decision_about_a_wave(changed: dict[str, Any], decision: Decision) -> None:
    assert decide(RULES, replace(WAVE, **changed)).decision is decision


def test_wave_without_a_time_limit_waits_forever() -> None:
    rules = replace(RULES, max_wave_seconds=0)
    assert decide(rules, replace(WAVE, succeeded=0, waiting=100, elapsed_seconds=1e9)).decision is Decision.wait


def test_error_threshold_of_zero_pauses_at_the_first_failure() -> None:
    verdict = decide(replace(RULES, error_percent=0), replace(WAVE, failed=1, waiting=9))
    assert verdict.decision is Decision.pause
    assert verdict.reason == "1 of 100 failed, more than 0 %"
