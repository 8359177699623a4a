"""`restante rollout`: a change in waves, some devices or miners first, the others when those have succeeded."""

import secrets
import time
from pathlib import Path
from typing import Annotated, Any

import typer

from restante.cli.edge import miners
from restante.cli.fleet import devices
from restante.cli.fleet.configs import NoteOption, config_of
from restante.cli.jobs.bulk import CommandParamsOption, PriorityOption, TtlOption, command_params
from restante.cli.jobs.bulk_noun import BULK_OPTIONS, counted, look_first, selection
from restante.cli.output import Column, Columns, identity, print_list, print_one, print_text, when
from restante.cli.remote import completion, filters
from restante.cli.remote.arguments import given, rollout_of
from restante.cli.remote.common_options import WATCHING
from restante.cli.remote.filters import choice_of
from restante.cli.remote.noun import Call, Filters, Item, Noun, Page
from restante.cli.remote.progress import ProgressBar
from restante.cli.remote.times import parse_duration
from restante.cli.remote.values import json_file, json_object, whole_number
from restante.core.errors import BadInput

ROLLOUT = Noun("Changes in waves: some devices or miners first, then the others.")
app = ROLLOUT.app

FOLLOW_SECONDS = 1.0
ENDED = ("done", "aborted", "rolled_back")
STATES = ("pending_approval", "running", "paused", "done", "aborted", "rolling_back", "rolled_back")
# The fields of a rollout's filter; `--tag` is for devices and for miners.
FILTERS: Filters = {**filters.DEVICES, **filters.BULK_MINERS}
EXPECTED_WAVE = "10% (of all), 50 (more), group:NAME, or a filter as a JSON object"
RolloutArgument = Annotated[
    str,
    typer.Argument(metavar="ROLLOUT", help="The rollout's id, or its beginning.", autocompletion=completion.ROLLOUTS),
]
SuccessOption = Annotated[
    int | None,
    typer.Option(
        "--success",
        metavar="PERCENT",
        parser=whole_number,
        help="So many of a wave must succeed before the next one. Default: 95.",
    ),
]
ErrorsOption = Annotated[
    int | None,
    typer.Option(
        "--errors",
        metavar="PERCENT",
        parser=whole_number,
        help="When more of a wave fail, the rollout pauses. Default: 5.",
    ),
]
MinTimeOption = Annotated[
    str | None, typer.Option("--min-time", metavar="TIME", help="A wave takes at least so long. Default: 1m.")
]
MaxTimeOption = Annotated[
    str | None,
    typer.Option("--max-time", metavar="TIME", help="Pause if a wave takes longer. Default: 0, it waits."),
]


def _progress(rollout: Any) -> str:
    wave = f"wave {rollout['wave']} of {len(rollout['waves'])}" if rollout["wave"] else "no wave yet"
    if rollout["succeeded"] is None:
        return wave
    counts = f"{rollout['succeeded']} of {rollout['total']} succeeded"
    return f"{wave}, {counts}" + (f", {rollout['failed']} failed" if rollout["failed"] else "")


COLUMNS: Columns = {
    "id": identity("rollout_id"),
    "name": "name",
    "action": "action",
    "state": "state",
    "total": "total",
    "progress": Column(_progress),
    "made": when("created_at"),
    "by": "created_by",
}
FIELDS: Columns = {
    **COLUMNS,
    "reason": "reason",
    "succeeded": "succeeded",
    "failed": "failed",
    "waiting": "waiting",
    "success %": "success_percent",
    "errors %": "error_percent",
    "min seconds": "min_wave_seconds",
    "max seconds": "max_wave_seconds",
    "rate per second": "rate_per_second",
    "poll boost": "poll_boost",
    "filter": "filter",
    "approved by": "approved_by",
    "finished": when("finished_at"),
    "roll-back job": identity("roll_back_job_id"),
}
WAVES: Columns = {
    "wave": "number",
    "who": Column(lambda wave: _shown_wave(wave["rule"])),
    "state": "state",
    "total": "total",
    "handed out": "handed_out",
    "succeeded": "succeeded",
    "failed": "failed",
    "waiting": "waiting",
    "started": when("started_at"),
    "job": identity("job_id"),
}


def _shown_wave(rule: Any) -> str:
    if rule.get("percent") is not None:
        return f"{rule['percent']:g}%"
    if rule.get("count") is not None:
        return f"{rule['count']} more"
    return f"group:{rule['group']}" if rule.get("group") else str(rule.get("filter"))


@ROLLOUT.lists(COLUMNS, empty="No rollouts.", filters={"state": choice_of("--state", STATES, "Only in this state.")})
def list_rollouts(call: Call) -> Page:
    """List rollouts, newest first."""
    return call.page(call.client.rollouts.list_page, **call.filters)


def _print_rollout(call: Call, rollout: Any) -> None:
    print_one(dict(rollout), FIELDS, as_json=call.is_json, is_utc=call.is_utc)
    if not call.is_json:
        print_list({"items": rollout["waves"]}, WAVES, as_json=False, is_utc=call.is_utc, when_empty="No waves.")


@ROLLOUT.verb("show", _print_rollout, WATCHING)
def show(call: Call, rollout: RolloutArgument) -> Any:
    """Show a rollout and its waves."""
    return call.client.rollouts.get(rollout_of(call, rollout))


@ROLLOUT.lists(
    {"item": "item", "name": "name", "wave": "wave", "state": "state", "detail": "detail"},
    empty="No item is missing.",
    name="laggards",
)
def laggards(call: Call, rollout: RolloutArgument) -> Page:
    """List the devices or miners that have not reported success, in all waves so far, and why."""
    return call.page(call.client.rollouts.laggards_page, rollout_of(call, rollout))


def _start(call: Call, body: Item) -> None:
    """Look first, ask, and create the rollout."""
    is_on_devices = body["target"] == "devices"
    columns, things = (devices.COLUMNS, "devices") if is_on_devices else (miners.COLUMNS, "miners")
    body |= selection(call)
    create_rollout: Any = call.client.rollouts.create
    waves = ", ".join(_shown_wave(each) for each in body.get("waves", ())) or "1%, 10%, 50%, 100%"
    found = create_rollout(**body, dry_run=True)
    look_first(call, found, f"begins a rollout of {body['action']} in the waves {waves} to", things, columns)
    made = create_rollout(**body, idempotency_key=secrets.token_urlsafe(16))
    if call.options["follow"] and made["state"] != "pending_approval":
        _finish(call, _follow(call, made["rollout_id"]))
        return
    notes = [f"Follow it with: restante rollout watch {made['rollout_id']}"]
    if made["state"] == "pending_approval":
        notes = [
            f"It waits for approval: another person approves it with `restante rollout approve {made['rollout_id']}`."
        ]
    print_text(
        made,
        f"Rollout {{rollout_id}} is {{state}}: {{action}} on {counted(made['total'], things)}.",
        notes,
        as_json=call.is_json,
    )


@ROLLOUT.verb("create", _start, BULK_OPTIONS, FILTERS)
def create(
    _call: Call,
    name: Annotated[str, typer.Argument(metavar="NAME", help="A name, for lists.")],
    config: Annotated[
        Path | None, typer.Option("--config", metavar="FILE", help="Replace the install config of devices with this.")
    ] = None,
    patch: Annotated[
        Path | None, typer.Option("--patch", metavar="FILE", help="Change the install config by this merge patch.")
    ] = None,
    cert_id: Annotated[
        int | None,
        typer.Option("--certificate", metavar="ID", parser=whole_number, help="Assign this certificate to devices."),
    ] = None,
    renew: Annotated[bool, typer.Option("--renew-certificates", help="Renew the certificates of devices.")] = False,
    command_type: Annotated[
        str | None, typer.Option("--command", metavar="TYPE", help="Send this command to miners.")
    ] = None,
    params: CommandParamsOption = None,
    priority: PriorityOption = None,
    ttl_sec: TtlOption = None,
    change_note: NoteOption = None,
    waves: Annotated[
        list[str] | None,
        typer.Option("--wave", metavar="WAVE", help=f"{EXPECTED_WAVE}; repeatable. Default: 1%, 10%, 50%, 100%."),
    ] = None,
    success_percent: SuccessOption = None,
    error_percent: ErrorsOption = None,
    min_wave_seconds: MinTimeOption = None,
    max_wave_seconds: MaxTimeOption = None,
    poll_boost: Annotated[
        bool | None,
        typer.Option("--poll-boost/--no-poll-boost", help="Let devices poll faster meanwhile. Default: yes."),
    ] = None,
) -> Item:
    """Begin a rollout of one change: --config, --patch, --certificate, --renew-certificates or --command."""
    actions: dict[str, Item | None] = {
        "put_config": None if config is None else config_of(config, change_note, "--config"),
        "patch_config": None if patch is None else given(patch=json_file(patch, "--patch"), change_note=change_note),
        "assign_certificate": None if cert_id is None else {"cert_id": cert_id},
        "renew_certificates": {} if renew else None,
        "send": None if command_type is None else command_params(command_type, params, priority, ttl_sec),
    }
    chosen = [(action, found) for action, found in actions.items() if found is not None]
    if len(chosen) != 1:
        raise typer.BadParameter("give one of --config, --patch, --certificate, --renew-certificates and --command")
    action, found = chosen[0]
    target = "miners" if action == "send" else "devices"
    body = {"name": name, "target": target, "action": action, "params": found}
    body |= given(waves=[_wave(each) for each in waves or ()] or None, poll_boost=poll_boost)
    return body | _thresholds(success_percent, error_percent, min_wave_seconds, max_wave_seconds)


def _wave(text: str) -> Item:
    if text.startswith("{"):
        return {"filter": json_object(text, "--wave")}
    if text.startswith("group:") and len(text) > len("group:"):
        return {"group": text.removeprefix("group:")}
    try:
        return {"percent": float(text[:-1])} if text.endswith("%") else {"count": int(text)}
    except ValueError:
        raise BadInput("--wave", EXPECTED_WAVE) from None


def _thresholds(success: int | None, error: int | None, min_time: str | None, max_time: str | None) -> Item:
    return given(
        success_percent=success,
        error_percent=error,
        min_wave_seconds=None if min_time is None else parse_duration(min_time, "--min-time"),
        max_wave_seconds=None if max_time is None else parse_duration(max_time, "--max-time"),
    )


@ROLLOUT.does("update", "Rollout {rollout_id} is changed.")
def update(
    call: Call,
    rollout: RolloutArgument,
    name: Annotated[str | None, typer.Option("--name", metavar="NAME", help="A new name.")] = None,
    success_percent: SuccessOption = None,
    error_percent: ErrorsOption = None,
    min_wave_seconds: MinTimeOption = None,
    max_wave_seconds: MaxTimeOption = None,
) -> Any:
    """Change the name or the thresholds of a rollout."""
    fields = given(name=name) | _thresholds(success_percent, error_percent, min_wave_seconds, max_wave_seconds)
    if not fields:
        raise typer.BadParameter("give --name, --success, --errors, --min-time or --max-time")
    return call.client.rollouts.change(rollout_of(call, rollout), **fields)


@ROLLOUT.runs("watch")
def watch(call: Call, rollout: RolloutArgument) -> None:
    """Follow a rollout with a progress bar until it ends or pauses. Exit code 1 unless it is done."""
    _finish(call, _follow(call, rollout_of(call, rollout)))


@ROLLOUT.does("pause", "Rollout {rollout_id} is {state}.")
def pause(call: Call, rollout: RolloutArgument) -> Any:
    """Stop the current wave."""
    return call.client.rollouts.pause(rollout_of(call, rollout))


@ROLLOUT.does("resume", "Rollout {rollout_id} is {state}.")
def resume(call: Call, rollout: RolloutArgument) -> Any:
    """Go on with a paused rollout; failures up to now are accepted."""
    return call.client.rollouts.resume(rollout_of(call, rollout))


@ROLLOUT.does("advance", "Rollout {rollout_id} is {state}, in wave {wave}.", asks=True)
def advance(call: Call, rollout: RolloutArgument) -> Any:
    """Begin the next wave now, whatever the thresholds say."""
    found = call.client.rollouts.get(rollout_of(call, rollout))
    call.confirm(f"This begins the next wave of rollout {found['rollout_id']} ({found['name']}): {_progress(found)}.")
    return call.client.rollouts.advance(found["rollout_id"])


@ROLLOUT.does("abort", "Rollout {rollout_id} is {state}.", asks=True)
def abort(call: Call, rollout: RolloutArgument) -> Any:
    """End a rollout. What is done stays done."""
    found = call.client.rollouts.get(rollout_of(call, rollout))
    call.confirm(f"This ends rollout {found['rollout_id']} ({found['name']}): {_progress(found)}.")
    return call.client.rollouts.abort(found["rollout_id"])


@ROLLOUT.does("roll-back", "Rollout {rollout_id} is {state}.", asks=True)
def roll_back(call: Call, rollout: RolloutArgument) -> Any:
    """Undo a rollout for all items that got it."""
    found = call.client.rollouts.get(rollout_of(call, rollout))
    got = sum(wave["handed_out"] for wave in found["waves"])
    call.confirm(f"This undoes rollout {found['rollout_id']} ({found['name']}) for the {got} that got it.")
    return call.client.rollouts.roll_back(found["rollout_id"])


@ROLLOUT.does("approve", "Rollout {rollout_id} is {state}.")
def approve(call: Call, rollout: RolloutArgument) -> Any:
    """Approve a rollout. This needs `restante login` as a person who did not create it."""
    return call.client.rollouts.approve(rollout_of(call, rollout))


@ROLLOUT.does("deny", "Rollout {rollout_id} is {state}.")
def deny(call: Call, rollout: RolloutArgument) -> Any:
    """Refuse a rollout that waits for approval."""
    return call.client.rollouts.deny(rollout_of(call, rollout))


def _follow(call: Call, rollout_id: str) -> Any:
    """Draw the progress of a rollout until it ends, or waits for a person; return it."""
    bar = ProgressBar()
    try:
        while True:
            found = call.client.rollouts.get(rollout_id)
            bar.draw(
                (found["succeeded"] or 0) + (found["failed"] or 0), found["total"], found["state"], _progress(found)
            )
            if found["state"] in (*ENDED, "paused", "pending_approval"):
                return found
            time.sleep(FOLLOW_SECONDS)
    except KeyboardInterrupt:
        typer.echo(f"\nThe rollout goes on: restante rollout watch {rollout_id}", err=True)
        raise typer.Exit(130) from None
    finally:
        bar.close()


def _finish(call: Call, rollout: Any) -> None:
    _print_rollout(call, rollout)
    if rollout["state"] not in ("done", "rolled_back"):
        if not call.is_json:
            typer.echo(f"restante rollout laggards {rollout['rollout_id']} shows who is missing.", err=True)
        raise typer.Exit(1)
