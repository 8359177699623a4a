"""A command's audit rows as people read them: its steps, and the result of each attempt."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import msgspec

from restante.commands.audit.audit_listing import AuditView
from restante.commands.lifecycle.listing import CommandDetail
from restante.console.rendering.diffs import DiffLine, diff_lines
from restante.console.rendering.rendering import pretty
from restante.console.rendering.texts import COMMAND_STEPS

_KINDS = {
    "succeeded": "ok",
    "failed": "bad",
    "expired": "bad",
    "rejected": "bad",
    "dispatched": "busy",
    "running": "busy",
    "cancelled": "off",
    "superseded": "off",
}
# Facts and attempts show these already, or they say nothing to a person.
_ON_THE_PAGE = {
    *("command_type", "zone_id", "miner_id", "priority", "params_sha256", "lease_until", "expires_at", "miner_count"),
    *("attempt", "signature", "executed_at", "next_attempt_at"),
}
_SIGNATURES = {"valid": "valid", "none": "not signed"}


@dataclass(frozen=True, slots=True)
class Attempt:
    """One hand-out of the command to a collector, and its end; None: not yet, or not known."""

    number: int
    collector: str
    dispatched_at: str
    lease_until: int | None
    ended_at: str | None = None
    outcome: str = ""
    result: str = ""
    signature: str | None = None
    refused: tuple[str, ...] = ()


def steps_of(history: Iterable[AuditView]) -> list[tuple[str, str, str, str]]:
    """Kind of mark, what happened, when, and more about it."""
    return [_step(row) for row in history]


def attempts_of(history: Sequence[AuditView]) -> list[Attempt]:
    """The attempts that the rows record, the first one first."""
    found: dict[int, Attempt] = {}
    for row in history:
        detail = _detail(row)
        number = detail.get("attempt")
        if not isinstance(number, int):
            continue
        if row.to_state == "dispatched" and row.from_state != "dispatched":
            found[number] = Attempt(number, _name(row.actor), row.at, detail.get("lease_until"))
        elif number in found:
            found[number] = _ended(found[number], row, detail)
    return list(found.values())


def snapshots_of(command: CommandDetail) -> list[DiffLine] | None:
    """How the miner differed after the command; None if the collector has not reported both."""
    if command.before_snapshot is None or command.after_snapshot is None:
        return None
    return diff_lines(pretty(command.before_snapshot), pretty(command.after_snapshot))


def _ended(attempt: Attempt, row: AuditView, detail: dict[str, Any]) -> Attempt:
    if row.event == "ack.refused":
        return replace(attempt, refused=(*attempt.refused, str(detail.get("error", ""))))
    signature = _SIGNATURES.get(str(detail.get("signature")), attempt.signature)
    if row.to_state == "running":
        return replace(attempt, outcome="running", signature=signature)
    result = " ".join(str(detail[name]) for name in ("result_code", "message") if detail.get(name))
    outcome = "failed" if row.to_state == "pending" else row.to_state or ""
    return replace(attempt, ended_at=row.at, outcome=outcome, result=result, signature=signature)


def _step(row: AuditView) -> tuple[str, str, str, str]:
    kind = _KINDS.get(row.to_state or "", "wait")
    if row.event.endswith(("refused", "rejected")):
        kind = "warn"
    text = COMMAND_STEPS.get(row.event, row.event.replace(".", " ").replace("_", " ").capitalize())
    detail = _detail(row)
    attempt = f", attempt {detail['attempt']}" if isinstance(detail.get("attempt"), int) else ""
    return kind, f"{text} by {_name(row.actor)}{attempt}", row.at, ", ".join(_plain(detail))


def _plain(detail: dict[str, Any]) -> list[str]:
    """The plain values of a detail: snapshots and lists have their own place on the page."""
    shown = [(name, value) for name, value in detail.items() if name not in _ON_THE_PAGE]
    return [f"{name.replace('_', ' ')} {value}" for name, value in shown if isinstance(value, str | int | float)]


def _detail(row: AuditView) -> dict[str, Any]:
    detail = msgspec.json.decode(row.detail)
    return detail if isinstance(detail, dict) else {}


def _name(actor: str) -> str:
    return actor.replace("collector:", "collector ")
