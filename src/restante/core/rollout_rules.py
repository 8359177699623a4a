"""The decision about a wave of a rollout: wait, go on with the next wave, or pause.

    failures above the error threshold ─────────────────────────────▶ pause
    all items have it, enough report success, the wave is old enough ─▶ next wave
    not enough report success in the time of a wave ────────────────▶ pause
    otherwise ──────────────────────────────────────────────────────▶ wait

Decides only; time and counts are arguments.
"""

from dataclasses import dataclass
from enum import StrEnum


class Decision(StrEnum):
    wait = "wait"
    advance = "advance"
    pause = "pause"


@dataclass(frozen=True, slots=True)
class RolloutRules:
    """`success_percent` of a wave must report success before the next one; more than `error_percent` failures pause the
    rollout. `max_wave_seconds` 0: a wave may take any time."""

    success_percent: int
    error_percent: int
    min_wave_seconds: int
    max_wave_seconds: int


@dataclass(frozen=True, slots=True)
class WaveProgress:
    """The items of a wave. `is_handed_out`: every item of the wave has got the change, or was refused it.

    `accepted_failures`: failures of this wave that an operator has seen and accepted by resuming the rollout.
    """

    planned: int
    succeeded: int
    failed: int
    waiting: int
    is_handed_out: bool
    elapsed_seconds: float
    accepted_failures: int = 0

    @property
    def counted(self) -> int:
        return self.succeeded + self.failed + self.waiting


@dataclass(frozen=True, slots=True)
class Verdict:
    decision: Decision
    reason: str | None = None


_WAIT = Verdict(Decision.wait)


def decide(rules: RolloutRules, wave: WaveProgress) -> Verdict:
    new_failures = wave.failed - wave.accepted_failures
    size = wave.counted if wave.is_handed_out else max(wave.planned, wave.counted)
    if new_failures > 0 and new_failures * 100 > rules.error_percent * size:
        return Verdict(Decision.pause, f"{wave.failed} of {size} failed, more than {rules.error_percent} %")
    if not wave.is_handed_out:
        return _WAIT
    judged = wave.counted - wave.accepted_failures
    is_successful = wave.succeeded * 100 >= rules.success_percent * judged
    if is_successful and wave.elapsed_seconds >= rules.min_wave_seconds:
        return Verdict(Decision.advance)
    if not is_successful and 0 < rules.max_wave_seconds <= wave.elapsed_seconds:
        missing = wave.waiting + new_failures
        return Verdict(Decision.pause, f"{missing} of {wave.counted} have not reported success in time")
    return _WAIT
