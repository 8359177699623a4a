"""`restante status`: one screen of what is stuck.

Each line is one question to the server. A question that the caller may not ask is left out.
"""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from restante_client.errors import Forbidden, NotFound

from restante.cli.output import Column, Columns, print_json, print_list
from restante.cli.remote.noun import Call, remote_command
from restante.cli.remote.times import moment, relative

COUNTED_MAX = 500


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
        is_stuck = bool(problem) or failed > 0 or age > 60
        yield Line(f"outbox {outbox['source']}", is_stuck, state, "restante outbox list --status FAILED")


def _approvals(call: Call) -> Iterator[Line]:
    page = call.client.commands.list_page(status="pending_approval", limit=COUNTED_MAX)
    yield _counted("commands to approve", page, "restante command list --status pending_approval")


def _commands(call: Call) -> Iterator[Line]:
    page = call.client.commands.list_page(status="pending", limit=COUNTED_MAX)
    yield _counted("commands to dispatch", page, "restante command list --status pending; restante command why ID")


def _counted(subject: str, page: Any, look: str) -> Line:
    items = page["items"]
    count = f"{len(items)} or more" if page["next"] is not None else str(len(items))
    oldest = moment(items[-1]["created_at"]) if items else None
    since = "" if oldest is None else f", oldest {relative(oldest, _now())}"
    return Line(subject, bool(items), count + since, look)


def _now() -> Any:
    from datetime import UTC, datetime

    return datetime.now(UTC)


def _collectors(call: Call) -> Iterator[Line]:
    active = [each for each in call.client.collectors.list() if each["status"] == "active"]
    silent = [each for each in active if each["last_seen_at"] is None or _age(each["last_seen_at"]) > 600]
    yield Line(
        "collectors",
        bool(silent),
        f"{len(silent)} of {len(active)} were not seen for 10 minutes",
        "restante collector list",
    )


def _age(text: Any) -> float:
    at = moment(text)
    return 0.0 if at is None else float((_now() - at).total_seconds())


def _events(call: Call) -> Iterator[Line]:
    clients = list(call.client.events.statuses())
    errored, waiting = sum(each["errored"] for each in clients), sum(each["waiting"] for each in clients)
    state = f"{waiting} waiting, {errored} errored, {len(clients)} clients"
    yield Line("events", errored > 0, state, "restante event list --status errored; restante event why CLIENT_ID")


QUESTIONS: tuple[Callable[[Call], Iterator[Line]], ...] = (_outbox, _approvals, _commands, _collectors, _events)


def _status(call: Call) -> list[Line]:
    """Show what is stuck: outboxes, commands, collectors and events. Exit code 0, whatever it finds."""
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
    columns: Columns = {
        "": lambda item: "!" if item["stuck"] else "",
        "what": "subject",
        "state": "state",
        "more": Column(lambda item: item["look"] if item["stuck"] else "", is_id=True),
    }
    print_list({"items": items}, columns, as_json=False, is_utc=call.is_utc, when_empty="")


status = remote_command(_status, _show, {})
