"""The decorator of bulk actions: look first, then ask with the count, then start a job.

    dry run on the server ─▶ count and sample ─▶ confirmation ─▶ job ─▶ `--watch`: progress bar until it ends
                                   └─ --dry-run ends here

A function returns an `Action`; the decorator adds the filters and the options of every bulk action.
"""

import secrets
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any

import typer

from restante.cli.jobs.jobs import finish, follow
from restante.cli.output import Columns, print_json, print_list, print_text
from restante.cli.remote.arguments import given
from restante.cli.remote.common_options import ASKING, Options
from restante.cli.remote.noun import Body, Call, Filters, Noun, Stopped
from restante.cli.remote.refusals import Refused
from restante.cli.remote.times import normalised
from restante.cli.remote.values import whole_number

NAMES_SHOWN = 3
AllOption = Annotated[
    bool, typer.Option("--all", help="Everything that you may change, instead of a filter.", show_default=False)
]
RateOption = Annotated[
    int | None,
    typer.Option("--rate", metavar="N", parser=whole_number, help="The most items in a second. Default: no limit."),
]
FollowOption = Annotated[bool, typer.Option("--watch", help="Follow the job with a progress bar until it ends.")]
# The name of an item of the sample, by its kind.
_NAMES = ("name", "command_id", "jti", "device_id", "id")


@dataclass(frozen=True, slots=True)
class Action:
    """`start` is the method of the client; `does` and `things` complete `This … 12 …`."""

    start: Callable[..., Any]
    name: str
    does: str
    things: str
    params: dict[str, Any]


BULK_OPTIONS: Options = {
    "all": (AllOption, False),
    "rate_per_second": (RateOption, None),
    "follow": (FollowOption, False),
    **ASKING,
}


class BulkNoun(Noun):
    def acts(self, name: str, columns: Columns, filters: Filters) -> Callable[[Body], Body]:
        """A bulk action on everything that matches the filters. `columns` show the sample of a dry run."""
        return self.verb(name, lambda call, action: run_bulk(call, action, columns), BULK_OPTIONS, filters)


def run_bulk(call: Call, action: Action, columns: Columns) -> None:
    body = {"action": action.name, "params": action.params, **selection(call)}
    found = action.start(**body, dry_run=True)
    look_first(call, found, action.does, action.things, columns)
    # A repeated request after a lost response creates no second job.
    job = action.start(**body, idempotency_key=secrets.token_urlsafe(16))
    if call.options["follow"] and job["state"] != "pending_approval":
        finish(call, follow(call, job["job_id"]))
        return
    notes = [f"Follow it with: restante job watch {job['job_id']}"]
    if job["state"] == "pending_approval":
        notes = [f"It waits for approval: another person approves it with `restante job approve {job['job_id']}`."]
    print_text(
        job,
        f"Job {{job_id}} is {{state}}: {{action}} on {counted(job['total'], action.things)}.",
        notes,
        as_json=call.is_json,
    )


def selection(call: Call) -> dict[str, Any]:
    """The fields that say what to act on, and how fast."""
    is_all = call.options["all"]
    if not call.filters and not is_all:
        raise Refused("a filter is missing, for example --tag; --all means everything that you may change")
    return {**given(rate_per_second=call.options["rate_per_second"]), "filter": call.filters, "all": is_all}


def look_first(call: Call, found: Any, does: str, things: str, columns: Columns) -> None:
    """Show the dry run and stop, or ask with its count. Stops if nothing matches."""
    if call.is_dry_run:
        _print_dry_run(call, found, things, columns)
        raise Stopped
    if found["total"] == 0:
        if call.is_json:
            print_json(normalised(found))
        else:
            typer.echo(f"No {things} match: nothing to do.")
        raise Stopped
    named = [str(_name(item)) for item in found["sample"][:NAMES_SHOWN]]
    more = ", …" if found["total"] > len(named) else ""
    approval = " It then waits for the approval of another person." if found.get("needs_approval") else ""
    call.confirm(f"This {does} {counted(found['total'], things)} ({', '.join(named)}{more}).{approval}")


def counted(number: int, things: str) -> str:
    return f"{number} {things.removesuffix('s') if number == 1 else things}"


def _name(item: Any) -> object:
    return next((item[name] for name in _NAMES if item.get(name)), "")


def _print_dry_run(call: Call, found: Any, things: str, columns: Columns) -> None:
    if call.is_json:
        print_json(normalised(found))
        return
    shown = f"; the first {len(found['sample'])} are shown" if found["total"] > len(found["sample"]) else ""
    matching = f"{counted(found['total'], things)} {'matches' if found['total'] == 1 else 'match'}"
    typer.echo(f"{matching}{shown}. Nothing was changed.", err=True)
    if found.get("needs_approval"):
        typer.echo("It would wait for the approval of another person.", err=True)
    print_list({"items": found["sample"]}, columns, as_json=False, is_utc=call.is_utc, when_empty="")
