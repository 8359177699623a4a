"""Nouns: groups of commands that call a server. A module declares one, with a decorated function for each verb.

    SITE = Noun("Sites with miners.")

    @SITE.lists({"id": "id", "name": "name"}, empty="No sites.")
    def list_sites(call: Call) -> Page:
        \"\"\"List sites by id.\"\"\"
        return call.page(call.client.sites.list_page)

The function gets the call and the values of its own options. The decorator adds the options that every command has,
connects to the server, prints the result as a table, TSV or JSON, and names flags instead of fields in refusals. The
name of a parameter is that of the field of the API, so that a refusal can be translated.
"""

import functools
import inspect
import re
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any, get_type_hints

import typer
from restante_client import BlockingOperatorClient
from restante_client.errors import ResponseError, RestanteError, Unauthorized

from restante.cli.output import Columns, print_list, print_one, print_text
from restante.cli.remote.target import Target
from restante.cli.remote.times import moment, parse_since
from restante.core.errors import BadInput

PAGE_ITEMS_MAX = 500
WATCH_SECONDS = 2.0
CLEAR = "\x1b[H\x1b[2J"
_FIELD = re.compile(r"([a-z_]+)((?:\[\d+\])?(?:\.[a-z_]+)?)(: )")

Item = dict[str, Any]
Page = dict[str, Any]
Body = Callable[..., Any]


class Refused(RestanteError):
    """The server refused the request; the text names flags."""


class Stopped(Exception):
    """The command ends early, without an error: a dry run, or a person who said no."""


@dataclass
class Call:
    """One command on its way to the server."""

    client: BlockingOperatorClient
    is_json: bool = False
    is_utc: bool = False
    limit: int = 100
    after: int | None = None
    since: datetime | None = None
    is_yes: bool = False
    is_dry_run: bool = False
    notes: list[str] = field(default_factory=list)

    def page(self, read: Callable[..., Any], *path: Any, since_field: str = "created_at", **filters: Any) -> Page:
        """The items that the options of a list ask for. With `--since` the list must be newest first."""
        items: list[Item] = []
        after = self.after
        while True:
            found = read(*path, limit=min(self.limit - len(items), PAGE_ITEMS_MAX), after=after, **filters)
            newer = [item for item in found["items"] if self._is_recent(item, since_field)]
            items += newer
            after = found["next"]
            if len(newer) < len(found["items"]):
                after = None
            if after is None or len(items) >= self.limit:
                return {"items": items, "next": after}

    def _is_recent(self, item: Item, name: str) -> bool:
        at = moment(item.get(name)) if self.since else None
        return self.since is None or at is None or at >= self.since

    def confirm(self, what: str) -> None:
        """Ask before something that cannot be undone or stops machines; `what` says it, with counts."""
        if self.is_dry_run:
            typer.echo(f"Would do: {what}")
            raise Stopped
        if self.is_yes:
            return
        if not sys.stdin.isatty():
            raise Refused(f"{what} There is no terminal to ask on: add --yes to do it.")
        if not typer.confirm(f"{what} Continue?", err=True):
            raise Stopped

    def note(self, text: str) -> None:
        """A line for the person, after the result; not in JSON."""
        self.notes.append(text)


ServerOption = Annotated[
    str | None, typer.Option("--server", metavar="URL", help="The server (RESTANTE_SERVER). See `restante login`.")
]
ProfileOption = Annotated[
    str | None, typer.Option("--profile", metavar="NAME", help="A profile that `restante login` has made.")
]
DataOption = Annotated[
    Path | None,
    typer.Option("--data", metavar="DIR", help="The data folder of a server on this machine (RESTANTE_DATA)."),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON.")]
UtcOption = Annotated[bool, typer.Option("--utc", help="Print times in UTC instead of how long ago.")]
LimitOption = Annotated[int, typer.Option("--limit", metavar="N", help="The most items to list.")]
AfterOption = Annotated[int | None, typer.Option("--after", metavar="ID", help="Where the previous page ended.")]
WatchOption = Annotated[bool, typer.Option("--watch", help="List again every two seconds, until Ctrl-C.")]
SinceOption = Annotated[
    str | None, typer.Option("--since", metavar="TIME", help="Only newer ones: 15m, 1h, 7d, or a time.")
]
YesOption = Annotated[bool, typer.Option("--yes", help="Do not ask.")]
DryRunOption = Annotated[bool, typer.Option("--dry-run", help="Only say what would be done.")]

_OUTPUT: dict[str, tuple[Any, Any]] = {"json": (JsonOption, False), "utc": (UtcOption, False)}
_TARGET: dict[str, tuple[Any, Any]] = {
    "server": (ServerOption, None),
    "profile": (ProfileOption, None),
    "data": (DataOption, None),
}
_LISTING: dict[str, tuple[Any, Any]] = {
    "limit": (LimitOption, 100),
    "after": (AfterOption, None),
    "watch": (WatchOption, False),
}
_SINCE: dict[str, tuple[Any, Any]] = {"since": (SinceOption, None)}
_ASKING: dict[str, tuple[Any, Any]] = {"yes": (YesOption, False), "dry_run": (DryRunOption, False)}


class Noun:
    def __init__(self, summary: str) -> None:
        self.app = typer.Typer(no_args_is_help=True, help=summary)

    def lists(
        self, columns: Columns, *, empty: str, name: str = "list", has_since: bool = False
    ) -> Callable[[Body], Body]:
        """A verb that lists a page of items."""

        def show(call: Call, page: Page) -> None:
            print_list(page, columns, as_json=call.is_json, is_utc=call.is_utc, when_empty=empty)

        return self._verb(name, show, {**_LISTING, **(_SINCE if has_since else {})})

    def shows(self, fields: Columns | None = None, *, name: str = "show") -> Callable[[Body], Body]:
        """A verb that shows one thing: these fields, or all of them."""

        def show(call: Call, item: Item) -> None:
            print_one(item, fields, as_json=call.is_json, is_utc=call.is_utc)

        return self._verb(name, show, {})

    def does(self, name: str, text: str, *, asks: bool = False) -> Callable[[Body], Body]:
        """A verb that changes something. `text` is the sentence about the result, with its fields in braces."""

        def show(call: Call, result: Any) -> None:
            print_text(result, text, call.notes, as_json=call.is_json)

        return self._verb(name, show, _ASKING if asks else {})

    def runs(self, name: str) -> Callable[[Body], Body]:
        """A verb that prints by itself."""
        return self._verb(name, lambda _call, _result: None, {})

    def _verb(
        self, name: str, show: Callable[[Call, Any], None], more: Mapping[str, tuple[Any, Any]]
    ) -> Callable[[Body], Body]:
        def register(body: Body) -> Body:
            self.app.command(name)(remote_command(body, show, more))
            return body

        return register


def remote_command(body: Body, show: Callable[[Call, Any], None], more: Mapping[str, tuple[Any, Any]]) -> Body:
    """The function as a command, with the options that every command of this kind has."""
    hints = get_type_hints(body, include_extras=True)
    own = [
        parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY, annotation=hints[parameter.name])
        for parameter in list(inspect.signature(body).parameters.values())[1:]
    ]
    common = {**more, **_OUTPUT, **_TARGET}
    flags = {parameter.name: flag_of(parameter) for parameter in own}

    @functools.wraps(body)
    def run(**values: Any) -> None:
        options = {name: values.pop(name) for name in common}
        run_remotely(lambda call: body(call, **values), show, options, flags)

    added = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)
        for name, (annotation, default) in common.items()
    ]
    wrapped: Any = run
    # Typer reads the options of a command from its signature, which can be generated.
    wrapped.__signature__ = inspect.Signature([*own, *added])
    wrapped.__annotations__ = {each.name: each.annotation for each in (*own, *added)}
    return run


def run_remotely(
    body: Callable[[Call], Any], show: Callable[[Call, Any], None], options: dict[str, Any], flags: Mapping[str, str]
) -> None:
    since = options.get("since")
    limit = options.get("limit", 100)
    if limit < 1:
        raise BadInput("--limit", "a number from 1 on")
    target = Target(options["server"], options["profile"], options["data"])
    with target.connect() as client:
        call = Call(
            client,
            options["json"],
            options["utc"],
            limit,
            options.get("after"),
            None if since is None else parse_since(since),
            options.get("yes", False),
            options.get("dry_run", False),
        )
        try:
            with translated(flags):
                if options.get("watch"):
                    _watch(lambda: show(call, body(call)))
                else:
                    show(call, body(call))
        except Stopped:
            return


@contextmanager
def translated(flags: Mapping[str, str]) -> Iterator[None]:
    """Turn refusals of the server into errors that name flags."""
    try:
        yield
    except Unauthorized as error:
        raise Refused(f"{error.message or 'not signed in'} (sign in with `restante login URL`)") from None
    except ResponseError as error:
        raise Refused(with_flags(error.message or str(error), flags)) from None


def with_flags(message: str, flags: Mapping[str, str]) -> str:
    """The message of a refusal with the flag in place of the field that it is about."""
    matched = _FIELD.match(message)
    if matched is None or matched[1] not in flags:
        return message
    return f"{flags[matched[1]]}{matched[2]}{matched[3]}{message[matched.end() :]}"


def flag_of(parameter: inspect.Parameter) -> str:
    """How a person writes the parameter: its flag, or the name of the argument in the help."""
    for info in getattr(parameter.annotation, "__metadata__", ()):
        # In an annotation, Typer takes the first flag for the default.
        names = (getattr(info, "default", None), *(getattr(info, "param_decls", None) or ()))
        declared = [each for each in names if isinstance(each, str) and each.startswith("--")]
        if declared:
            return declared[0].partition("/")[0]
        if getattr(info, "metavar", None):
            return str(info.metavar)
    return parameter.name.upper()


def _watch(once: Callable[[], None]) -> None:
    try:
        while True:
            if sys.stdout.isatty():
                sys.stdout.write(CLEAR)
            once()
            sys.stdout.flush()
            time.sleep(WATCH_SECONDS)
    except KeyboardInterrupt:
        return
