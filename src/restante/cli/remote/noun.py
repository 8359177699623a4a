"""Nouns: groups of commands that call a server. A module declares one, with a decorated function for each verb.

    SITE = Noun("Sites with miners.")

    @SITE.lists({"id": "id", "name": "name"}, empty="No sites.")
    def list_sites(call: Call) -> Page:
        \"\"\"List sites by id.\"\"\"
        return call.page(call.client.sites.list_page)

The function gets the call and the values of its own options. The decorator adds the options that every command has,
connects to the server, prints the result as a table, TSV or JSON, and names flags instead of fields in refusals. The
name of a parameter is that of the field of the API, so that a refusal can be translated. Filters that several verbs
share are declared once, as a table; the function finds their values in `call.filters`.
"""

import functools
import inspect
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, get_type_hints

import typer
from restante_client import BlockingOperatorClient

from restante.cli.output import Columns, print_counts, print_json, print_list, print_one, print_text, write_parts
from restante.cli.remote import common_options as options_of
from restante.cli.remote.common_options import Options
from restante.cli.remote.refusals import Refused, flag_of, translated
from restante.cli.remote.target import Target
from restante.cli.remote.times import moment, parse_since
from restante.core.errors import BadInput

PAGE_ITEMS_MAX = 500
WATCH_SECONDS = 2.0
FILTER_PREFIX = "filter_"
CLEAR = "\x1b[H\x1b[2J"

Item = dict[str, Any]
Page = dict[str, Any]
Body = Callable[..., Any]
Show = Callable[["Call", Any], None]


class Stopped(Exception):
    """The command ends early, without an error: a dry run, or a person who said no."""


@dataclass
class Call:
    """One command on its way to the server."""

    client: BlockingOperatorClient
    is_json: bool = False
    is_utc: bool = False
    limit: int = 100
    after: Any = None
    since: datetime | None = None
    is_yes: bool = False
    is_dry_run: bool = False
    filters: Item = field(default_factory=dict)
    options: Item = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    def page(self, read: Callable[..., Any], *path: Any, since_field: str = "created_at", **filters: Any) -> Page:
        """The items that the options of a list select. With `--since` the list must be newest first."""
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
            if self.is_json:
                print_json({"dry_run": True, "what": what})
            else:
                typer.echo(f"Would do: {what}")
            raise Stopped
        if self.is_yes:
            return
        if not sys.stdin.isatty():
            raise Refused(f"{what} There is no terminal for the question: add --yes to do it.")
        if not typer.confirm(f"{what} Continue?", err=True):
            raise Stopped

    def note(self, text: str) -> None:
        """A line for the person, after the result; not in JSON."""
        self.notes.append(text)


def as_written(_call: Call, value: Any) -> Any:
    return value


@dataclass(frozen=True, slots=True)
class Filter:
    """A filter as an option. `read` turns what a person writes into the value of the API's field."""

    option: Any
    read: Callable[[Call, Any], Any] = as_written


# The filters by their fields in the API.
Filters = Mapping[str, Filter]
# Gets a call and returns how many items its filters select.
Count = Callable[[Call], Any]


class Noun:
    def __init__(self, summary: str) -> None:
        self.app = typer.Typer(no_args_is_help=True, help=summary)

    def lists(
        self,
        columns: Columns,
        *,
        empty: str,
        name: str = "list",
        has_since: bool = False,
        filters: Filters | None = None,
        counts: Count | None = None,
    ) -> Callable[[Body], Body]:
        """A verb that lists a page of items. `counts` is a faster way to count them than to list them all."""

        def show(call: Call, page: Page) -> None:
            print_list(page, columns, as_json=call.is_json, is_utc=call.is_utc, when_empty=empty)

        more = {**options_of.LISTING, **(options_of.SINCE if has_since else {})}
        return self.verb(name, show, more, filters, counts)

    def shows(self, fields: Columns | None = None, *, name: str = "show") -> Callable[[Body], Body]:
        """A verb that shows one thing: these fields, or all of them."""

        def show(call: Call, item: Item) -> None:
            print_one(item, fields, as_json=call.is_json, is_utc=call.is_utc)

        return self.verb(name, show, options_of.WATCHING)

    def does(
        self, name: str, text: str, *, asks: bool = False, filters: Filters | None = None
    ) -> Callable[[Body], Body]:
        """A verb that changes something. `text` is the sentence about the result, with its fields in braces."""

        def show(call: Call, result: Any) -> None:
            print_text(result, text, call.notes, as_json=call.is_json)

        return self.verb(name, show, options_of.ASKING if asks else {}, filters)

    def exports(self, what: str, read: Callable[[Call, Any], Iterable[bytes]], *, filters: Filters) -> None:
        """The verb `export`. `read` gets the call and a format, and returns the parts of the file."""

        def export(call: Call, format: options_of.FormatOption = "csv", out: options_of.OutOption = None) -> None:
            write_parts(read(call, "json" if call.is_json else format), out)

        export.__doc__ = f"Export {what}: all that match, as a file."
        self.verb("export", lambda _call, _result: None, {}, filters)(export)

    def runs(self, name: str) -> Callable[[Body], Body]:
        """A verb that prints by itself."""
        return self.verb(name, lambda _call, _result: None, {})

    def verb(
        self, name: str, show: Show, more: Options, filters: Filters | None = None, counts: Count | None = None
    ) -> Callable[[Body], Body]:
        def register(body: Body) -> Body:
            self.app.command(name)(remote_command(body, show, more, filters, counts))
            return body

        return register


def remote_command(
    body: Body, show: Show, more: Options, filters: Filters | None = None, counts: Count | None = None
) -> Body:
    """The function as a command, with the options that every command of this kind has."""
    filters = filters or {}
    own = _own_parameters(body)
    # A filter may have the name of another parameter.
    shared = [_parameter(FILTER_PREFIX + name, each.option, None) for name, each in filters.items()]
    common = {**more, **options_of.OUTPUT, **options_of.TARGET}
    added = [_parameter(name, annotation, default) for name, (annotation, default) in common.items()]
    flags = _flags(own, shared, added)

    @functools.wraps(body)
    def run(**values: Any) -> None:
        options = {name: values.pop(name) for name in common}
        given = {name: values.pop(FILTER_PREFIX + name) for name in filters}

        def call_body(call: Call) -> Any:
            call.filters = {
                name: filters[name].read(call, value) for name, value in given.items() if value not in (None, [])
            }
            if options.get("count"):
                return _counted(call, counts, lambda: body(call, **values))
            return body(call, **values)

        run_remotely(call_body, print_counts_of if options.get("count") else show, options, flags)

    wrapped: Any = run
    # Typer reads the options of a command from its signature, which can be generated.
    wrapped.__signature__ = inspect.Signature([*own, *shared, *added])
    wrapped.__annotations__ = {each.name: each.annotation for each in (*own, *shared, *added)}
    return run


def _own_parameters(body: Body) -> list[inspect.Parameter]:
    """The parameters of the function after the call."""
    hints = get_type_hints(body, include_extras=True)
    return [
        parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY, annotation=hints[parameter.name])
        for parameter in list(inspect.signature(body).parameters.values())[1:]
    ]


def _flags(
    own: list[inspect.Parameter], shared: list[inspect.Parameter], added: list[inspect.Parameter]
) -> dict[str, str]:
    """How a person writes each field of the API: of a query, of a body, and of the parts of bulk actions."""
    flags = {each.name: flag_of(each) for each in added}
    for each in shared:
        field = each.name.removeprefix(FILTER_PREFIX)
        flags |= {field: flag_of(each), f"filter.{field}": flag_of(each)}
    for each in own:
        flags |= {each.name: flag_of(each), f"params.{each.name}": flag_of(each)}
    return flags


def _parameter(name: str, annotation: Any, default: Any) -> inspect.Parameter:
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)


def _counted(call: Call, counts: Count | None, listed: Callable[[], Page]) -> Item:
    if counts is not None and call.since is None:
        return dict(counts(call))
    call.limit = sys.maxsize
    return {"total": {"value": len(listed()["items"]), "is_exact": True}}


def print_counts_of(call: Call, counts: Item) -> None:
    print_counts(counts, as_json=call.is_json)


def run_remotely(body: Callable[[Call], Any], show: Show, options: dict[str, Any], flags: Mapping[str, str]) -> None:
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
            options=options,
        )
        try:
            with translated(flags):
                if options.get("watch"):
                    _watch(lambda: body(call), lambda found: show(call, found))
                else:
                    show(call, body(call))
        except Stopped:
            return


def _watch(read: Callable[[], Any], show: Callable[[Any], None]) -> None:
    try:
        while True:
            found = read()
            if sys.stdout.isatty():
                sys.stdout.write(CLEAR)
            show(found)
            sys.stdout.flush()
            time.sleep(WATCH_SECONDS)
    except KeyboardInterrupt:
        return
