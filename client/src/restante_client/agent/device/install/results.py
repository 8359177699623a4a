"""The result of each step of a run, and the reports that the server gets.

A report is an event of `POST …/self/notify`. The server lists whole events of up to 2 KiB, so a report is bounded:
steps that went well are left out first, and counted.
"""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Optional

from restante_client.device.models import InstallConfig, InstallItem

REPORT_BYTES_MAX = 1900
TEXT_MAX = 250
DONE, UNCHANGED, FAILED, REFUSED, SKIPPED = "done", "unchanged", "failed", "refused", "skipped"
WENT_WELL = (DONE, UNCHANGED, SKIPPED)


@dataclass(frozen=True)
class StepResult:
    id: str
    type: str
    result: str
    error: str = ""
    exit_code: Optional[int] = None
    output: str = ""
    duration_ms: int = 0

    def as_event(self, *, has_output: bool) -> dict[str, Any]:
        found: dict[str, Any] = {"id": self.id, "type": self.type, "result": self.result}
        if self.error:
            found["error"] = self.error[:TEXT_MAX]
        if self.exit_code is not None:
            found["exit_code"] = self.exit_code
        if has_output and self.output and self.result == FAILED:
            found["output"] = self.output[-TEXT_MAX:]
        return {**found, "duration_ms": self.duration_ms}


@dataclass(frozen=True)
class Outcome:
    """The result of a run. `error` is empty if it went well; then `rollback_errors` is empty too."""

    steps: Sequence[StepResult]
    error: str = ""
    rollback_errors: Sequence[str] = ()

    @property
    def is_ok(self) -> bool:
        return not self.error

    @property
    def has_executed(self) -> bool:
        return any(step.type == "exec" and step.result in (DONE, FAILED) for step in self.steps)


def step(item: InstallItem, result: str, error: str = "", **fields: Any) -> StepResult:
    return StepResult(item.id, item.type, result, error, **fields)


def report(type: str, **fields: Any) -> dict[str, Any]:
    return {"type": type, "at_ms": int(time.time() * 1000), **fields}


def run_report(
    type: str,
    fields: dict[str, Any],
    outcome: Outcome,
    *,
    has_output: bool = False,
    restored: Sequence[StepResult] = (),
) -> dict[str, Any]:
    """The report of a run, with as many steps as fit."""
    made = report(type, **fields)
    if outcome.error:
        made["error"] = outcome.error[:TEXT_MAX]
        made["rolled_back"] = not outcome.rollback_errors
    if outcome.rollback_errors:
        made["rollback_errors"] = [text[:TEXT_MAX] for text in outcome.rollback_errors[:3]]
    if restored:
        made["restored"] = [each.as_event(has_output=False) for each in restored][:5]
    steps = [each.as_event(has_output=has_output) for each in outcome.steps]
    counts = [each["result"] for each in steps]
    made["counts"] = {result: counts.count(result) for result in dict.fromkeys(counts)}
    made["steps"] = steps
    while steps and len(json.dumps(made)) > REPORT_BYTES_MAX:
        well = [each for each in steps if each["result"] in WENT_WELL]
        steps.remove(well[-1] if well else steps[-1])
    return made


def config_fields(config: InstallConfig) -> dict[str, Any]:
    return {"config_id": config.id, "version": config.version, "installs_hash_b64": config.installs_hash}
