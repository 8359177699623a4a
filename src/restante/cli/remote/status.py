"""`restante status`: one screen of what is stuck.

Each line is one request to the server. A request that the caller may not make is left out.
"""

from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any, NamedTuple

import typer
from restante_client.errors import Forbidden, NotFound

from restante.cli.output import Columns, print_json, print_list
from restante.cli.remote.common_options import WATCHING
from restante.cli.remote.noun import Call, remote_command
from restante.cli.remote.times import moment, parse_since, relative, rfc3339

# A collector polls every few seconds, and waits a minute at most.
SILENT = "10m"
OLD_SECONDS = 60.0


class Line(NamedTuple):
    """`look`: the command that shows more."""

    subject: str
    is_stuck: bool
    state: str
    look: str


def _outbox(call: Call) -> Iterator[Line]:
    for outbox in call.client.outbox.sources()["items"]:
        failed, pending = outbox.get("failed") or 0, outbox.get("pending") or 0
        age = (outbox.get("oldest_pending_ms") or 0) / 1000
        problem = outbox.get("problem")
        state = problem or f"{pending} pending, {failed} failed" + (f", oldest {age:.0f} s" if pending else "")
        is_stuck = bool(problem) or failed > 0 or age > OLD_SECONDS
        look = "restante outbox sources" if problem else f"restante outbox list --source {outbox['source']}"
        yield Line(f"outbox {outbox['source']}", is_stuck, state, look)


def _devices(call: Call) -> Iterator[Line]:
    counts = call.client.devices.counts(status="active")
    overdue, total = counts["overdue"], counts["total"]
    state = f"{_number(overdue)} of {_number(total)} overdue"
    yield Line("devices", overdue["value"] > 0, state, "restante device list --overdue")
    failed = counts["config"]["failed"]
    state = f"{_number(counts['config']['behind'])} behind, {_number(failed)} failed"
    yield Line("install configs", failed["value"] > 0, state, "restante device list --config-version failed")


def _number(count: Any) -> str:
    return f"{count['value']}" if count["is_exact"] else f"{count['value']} or more"


def _commands(call: Call) -> Iterator[Line]:
    states = call.client.commands.counts()["states"]
    for subject, status in (("commands to approve", "pending_approval"), ("commands to dispatch", "pending")):
        count = states[status]
        look = f"restante command list --status {status}"
        yield Line(subject, count["value"] > 0, _number(count) + _oldest(call, status, count["value"]), look)


def _oldest(call: Call, status: Any, count: int) -> str:
    """How old the oldest command is, if one page has them all."""
    if not 0 < count <= 500:
        return ""
    items = call.client.commands.list_page(status=status, limit=500)["items"]
    at = moment(items[-1]["created_at"]) if items else None
    return "" if at is None else f", oldest {relative(at, datetime.now(UTC))}"


def _jobs(call: Call) -> Iterator[Line]:
    yield _of_states("jobs", call.client.jobs.list_page, "restante job list")
    yield _of_states("rollouts", call.client.rollouts.list_page, "restante rollout list")


def _of_states(subject: str, read: Callable[..., Any], look: str) -> Line:
    found = {state: len(read(state=state, limit=500)["items"]) for state in ("running", "paused", "pending_approval")}
    is_stuck = bool(found["paused"] or found["pending_approval"])
    state = f"{found['running']} running, {found['paused']} paused, {found['pending_approval']} to approve"
    return Line(subject, is_stuck, state, f"{look} --state {'paused' if found['paused'] else 'pending_approval'}")


def _collectors(call: Call) -> Iterator[Line]:
    since = rfc3339(parse_since(SILENT))
    total = call.client.collectors.counts(status="active")["total"]
    silent = call.client.collectors.counts(status="active", seen_before=since)["total"]
    state = f"{_number(silent)} of {_number(total)} not seen for {SILENT}"
    yield Line("collectors", silent["value"] > 0, state, f"restante collector list --seen-before {SILENT}")


def _events(call: Call) -> Iterator[Line]:
    clients = list(call.client.events.statuses())
    errored, waiting = sum(each["errored"] for each in clients), sum(each["waiting"] for each in clients)
    state = f"{waiting} waiting, {errored} errored, {len(clients)} clients"
    yield Line("events", errored > 0, state, "restante event list --status errored")


QUESTIONS: tuple[Callable[[Call], Iterator[Line]], ...] = (_outbox, _devices, _jobs, _commands, _collectors, _events)


def _status(call: Call) -> list[Line]:
    """Show what is stuck: outboxes, devices, jobs, commands, collectors and events. Exit code 0, whatever it finds."""
    ready = call.client.request("GET", "/readyz")
    state = ready.get("data", ready).get("status", "ready")
    lines = [Line("server", state not in ("ok", "ready"), str(state), "restante doctor")]
    for question in QUESTIONS:
        try:
            lines += question(call)
        except (Forbidden, NotFound):
            continue
    return lines


def _show(call: Call, lines: list[Line]) -> None:
    items = [
        {"subject": each.subject, "stuck": each.is_stuck, "state": each.state, "look": each.look} for each in lines
    ]
    if call.is_json:
        print_json({"items": items, "next": None})
        return
    columns: Columns = {"": lambda item: "!" if item["stuck"] else "", "what": "subject", "state": "state"}
    print_list({"items": items}, columns, as_json=False, is_utc=call.is_utc, when_empty="")
    stuck = [each.look for each in lines if each.is_stuck]
    if stuck:
        typer.echo("\n".join(("\nLook closer with:", *(f"  {look}" for look in stuck))))


status = remote_command(_status, _show, WATCHING)
