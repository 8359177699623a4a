"""The filters of lists, counts, exports and bulk actions as options: one table for each kind of thing.

A table maps the field of the API to its option. Times are written as `15m`, `1h`, `7d` (ago) or as times.
"""

from collections.abc import Callable
from typing import Annotated, Any

import typer

from restante.cli.remote import completion
from restante.cli.remote.arguments import (
    DeviceOption,
    MinerOption,
    SiteOption,
    ZoneOption,
    client_of,
    collector_id,
    device_id,
    job_of,
    miner_id,
    rule_id,
    site_id,
    user_id,
)
from restante.cli.remote.noun import Call, Filter, Filters, as_written
from restante.cli.remote.times import parse_since, rfc3339
from restante.cli.remote.values import choice
from restante.core.commands.command_states import State


def text(
    flag: str, metavar: str, meaning: str, complete: Any = None, read: Callable[[Call, str], Any] | None = None
) -> Filter:
    option = typer.Option(flag, metavar=metavar, help=meaning, autocompletion=complete)
    return Filter(Annotated[str | None, option], read or as_written)


def _time(flag: str, meaning: str) -> Filter:
    """A time that the command line turns into one that every API accepts."""

    def read(_call: Call, value: str) -> str:
        return rfc3339(parse_since(value, flag))

    return Filter(Annotated[str | None, typer.Option(flag, metavar="TIME", help=meaning)], read)


def choice_of(flag: str, names: tuple[str, ...], meaning: str) -> Filter:
    return Filter(Annotated[str | None, choice(flag, names, meaning)])


def _tags(_call: Call, tags: list[str]) -> str:
    return ",".join(tags)


TAG = Filter(
    Annotated[list[str] | None, typer.Option("--tag", metavar="TAG", help="Only with this tag; repeatable.")], _tags
)
SITE = Filter(SiteOption, site_id)
ZONE = Filter(ZoneOption)
MINER = Filter(MinerOption, miner_id)
DEVICE = Filter(DeviceOption, device_id)
COLLECTOR = Filter(
    Annotated[
        str | None,
        typer.Option(
            "--collector", metavar="COLLECTOR", help="Only of this collector.", autocompletion=completion.COLLECTORS
        ),
    ],
    collector_id,
)
USER = Filter(
    Annotated[
        str | None,
        typer.Option(
            "--user", metavar="USER", help="Only of this user: id or e-mail.", autocompletion=completion.PEOPLE
        ),
    ],
    user_id,
)
CLIENT = text("--client", "CLIENT_ID", "Only of this client.", completion.CLIENTS, client_of)
SINCE = _time("--since", "Only newer ones: 15m, 1h, 7d, or a time.")
UNTIL = _time("--until", "Only older ones: 15m, 1h, 7d, or a time.")
KNOWN = Filter(
    Annotated[
        bool | None,
        typer.Option("--known/--unknown", help="Only of miners that are registered, or of those that are not."),
    ]
)

# The server reads the times of these itself: a group keeps `1h` as it is.
GROUP_FILTERS: Filters = {
    "name": text("--name", "TEXT", "Only with names that begin with this."),
    "tag": TAG,
    "status": choice_of("--status", ("active", "revoked"), "Only in this state."),
    "platform": text("--platform", "NAME", "Only of this platform."),
    "agent_version": text("--agent-version", "VERSION", "Only with this version of the agent."),
    "config_version": text(
        "--config-version",
        "STATE|N",
        "Only with this install config: behind, current, fetched, applied, failed, or the number of a version.",
        lambda incomplete: [
            each for each in ("behind", "current", "fetched", "applied", "failed") if each.startswith(incomplete)
        ],
    ),
    "seen_before": text("--seen-before", "TIME", "Only without a poll since: 1h, 7d, or a time."),
    "seen_after": text("--seen-after", "TIME", "Only with a poll since: 1h, 7d, or a time."),
    "overdue": Filter(
        Annotated[bool | None, typer.Option("--overdue/--not-overdue", help="Only overdue ones, or only the others.")]
    ),
    "certificate_expires_before": text(
        "--certificate-expires-before", "TIME", "Only with a certificate that ends within: 30d, or before a time."
    ),
}
DEVICES: Filters = {
    **GROUP_FILTERS,
    "user_id": USER,
    "group": text("--group", "GROUP", "Only of this group: name or id.", completion.GROUPS),
}
OUTBOX: Filters = {
    "status": choice_of("--status", ("PENDING", "DELIVERED", "FAILED"), "Only in this state."),
    "device_id": DEVICE,
    "event_kind": text("--type", "TYPE", "Only signals of this type."),
    "since": SINCE,
    "until": UNTIL,
}
MINERS: Filters = {
    "site_id": SITE,
    "zone_id": ZONE,
    "name": text("--name", "TEXT", "Only with names that begin with this."),
    "status": choice_of("--status", ("active", "retired"), "Only in this state."),
}
COLLECTORS: Filters = {
    "site_id": SITE,
    "zone_id": ZONE,
    "name": text("--name", "TEXT", "Only with names that begin with this."),
    "status": choice_of("--status", ("active", "revoked"), "Only in this state."),
    "seen_before": _time("--seen-before", "Only without a poll since: 1h, 7d, or a time."),
    "seen_after": _time("--seen-after", "Only with a poll since: 1h, 7d, or a time."),
}
COMMAND_STATES = tuple(each.value for each in State)
_COMMANDS: Filters = {
    "site_id": SITE,
    "zone_id": ZONE,
    "miner_id": MINER,
    "rule_id": text("--rule", "RULE", "Only those made by this rule: id or name.", completion.RULES, rule_id),
    "command_type": text("--type", "TYPE", "Only of this type."),
    "created_by": text("--by", "WHO", "Only those made by this actor."),
}
COMMANDS: Filters = {
    **_COMMANDS,
    "status": choice_of("--status", COMMAND_STATES, "Only in this state."),
    "device_id": COLLECTOR,
    "result_code": text("--result", "CODE", "Only with this result code."),
    "dedupe_key": text("--dedupe-key", "KEY", "Only with this key."),
    "since": SINCE,
    "until": UNTIL,
}
SAFETY_EVENTS: Filters = {
    "site_id": SITE,
    "miner_id": MINER,
    "device_id": COLLECTOR,
    "action": choice_of(
        "--action", ("THERMAL_SHUTDOWN", "EMERGENCY_STOP", "POWER_LIMIT", "FAN_FAILURE"), "Only of this kind."
    ),
    "miner_known": KNOWN,
    "since": SINCE,
    "until": UNTIL,
}
METHODS = ("tls_client_auth", "private_key_jwt", "client_secret_basic")
CLIENTS: Filters = {
    "name": text("--name", "TEXT", "Only with names that begin with this."),
    "status": choice_of("--status", ("active", "suspended", "removed"), "Only in this state."),
    "token_endpoint_auth_method": choice_of("--method", METHODS, "Only those that authenticate this way."),
    "scope": text("--scope", "NAME", "Only those that may request this scope."),
    "polled_before": _time("--polled-before", "Only without a poll since: 1h, 7d, or a time."),
    "polled_after": _time("--polled-after", "Only with a poll since: 1h, 7d, or a time."),
}
_EVENTS: Filters = {
    "client_id": CLIENT,
    "txn": text("--txn", "ID", "Only of this transaction."),
    "err": text("--err", "CODE", "Only with this error code."),
    "since": SINCE,
    "until": UNTIL,
}
EVENTS: Filters = {
    **_EVENTS,
    "status": choice_of("--status", ("unsigned", "ready", "acknowledged", "errored", "dropped"), "Only in this state."),
    "profile": Filter(
        Annotated[str | None, choice("--kind", ("open-banking", "shared-signals"), "Only of this protocol.")]
    ),
}

# Bulk actions select with fields of their own.
BULK_MINERS: Filters = {
    "site_id": SITE,
    "zone_id": ZONE,
    "miner_ids": Filter(
        Annotated[
            list[str] | None,
            typer.Option(
                "--miner", metavar="MINER", help="Only this miner; repeatable.", autocompletion=completion.MINERS
            ),
        ],
        lambda call, miners: [miner_id(call, each) for each in miners],
    ),
    "tag": TAG,
}
BULK_COMMANDS: Filters = {
    **_COMMANDS,
    "status": Filter(
        Annotated[list[str] | None, choice("--status", COMMAND_STATES, "Only in this state; repeatable.")],
    ),
    "job_id": text("--job", "ID", "Only those made by this job.", completion.JOBS, job_of),
    "created_after": SINCE,
    "created_before": UNTIL,
}
BULK_ERRORED_EVENTS: Filters = _EVENTS
BULK_EVENTS: Filters = {
    **_EVENTS,
    "acknowledged_since": _time("--acknowledged-since", "Only those acknowledged since: 1h, 7d, or a time."),
}
BULK_OUTBOX: Filters = {
    "device_id": DEVICE,
    "event_kind": text("--type", "TYPE", "Only signals of this type."),
    "failure_contains": text("--failure", "TEXT", "Only with this text in the failure."),
    "created_after": SINCE,
    "created_before": UNTIL,
}
