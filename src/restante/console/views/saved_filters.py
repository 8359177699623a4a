"""Saved filters of the lists of commands, events, outbox rows and audit rows: each person has their own.

    list ─▶ shown_filters: links to the saved ones; the filter of this address, to save or to delete
    form ─▶ save, delete ─▶ back to the list

Saved filters of devices are groups: `updates/fleet.py`.
"""

from dataclasses import dataclass
from urllib.parse import urlencode

from restante.console.navigation import ROOT
from restante.console.pages import ConsoleRequest, Pages, PageSet
from restante.core.errors import BadInput
from restante.identity.people import saved_filters
from restante.web.response import ApiResponse
from restante.web.routes import Route

PATH = "/saved-filters"
VALUE_CHARACTERS_MAX = 300
COMMANDS, EVENTS, OUTBOX, AUDIT = "commands", "events", "outbox", "audit"


@dataclass(frozen=True, slots=True)
class FilteredPage:
    path: str
    fields: tuple[str, ...]


LISTS = {
    COMMANDS: FilteredPage("/commands", ("status", "type", "site", "miner", "by", "rule")),
    EVENTS: FilteredPage("/events", ("status", "client", "txn", "err")),
    OUTBOX: FilteredPage("/outbox", ("source", "status", "device")),
    AUDIT: FilteredPage("/audit/commands", ("command", "actor", "event", "site", "since", "until")),
}


@dataclass(frozen=True, slots=True)
class ShownFilters:
    """`chips`: text, address, whether it is the filter of this page, no count. `fields`: the filter of this page."""

    list_name: str
    fields: dict[str, str]
    chips: list[tuple[str, str, bool, None]]
    delete_path: str | None
    current_name: str


async def shown_filters(request: ConsoleRequest, list_name: str) -> ShownFilters:
    """What a list shows of the person's saved filters."""
    given = request.http.query_params
    fields = {
        name: text for name in LISTS[list_name].fields if (text := given.get(name, "").strip()[:VALUE_CHARACTERS_MAX])
    }
    query = urlencode(fields)
    saved = await request.read(saved_filters.filters_of, request.person.user_id, list_name)
    current = next((each for each in saved if each.query == query), None)
    return ShownFilters(
        list_name,
        fields,
        [(each.name, _address(list_name, each.query), each is current, None) for each in saved],
        None if current is None else f"{ROOT}{PATH}/{current.id}/delete",
        "" if current is None else current.name,
    )


class SavedFilterPages(PageSet):
    def routes(self, pages: Pages) -> list[Route]:
        return [
            pages.post(PATH, self.save, None),
            pages.post(PATH + "/{filter_id}/delete", self.delete, None),
        ]

    async def save(self, request: ConsoleRequest) -> ApiResponse:
        form, list_name = request.form, request.form.required("list", 20)
        if list_name not in LISTS:
            raise BadInput("list", f"one of {', '.join(LISTS)}")
        values = {name: form.text(name, VALUE_CHARACTERS_MAX).strip() for name in LISTS[list_name].fields}
        query = urlencode({name: text for name, text in values.items() if text})
        name = form.text("filter_name", 100).strip()
        await request.write(saved_filters.save, request.person.user_id, list_name, name, query)
        return request.redirect(_address(list_name, query), done="filter-saved")

    async def delete(self, request: ConsoleRequest) -> ApiResponse:
        deleted = await request.write(saved_filters.delete, request.person.user_id, request.path_id("filter_id"))
        return request.redirect(ROOT + LISTS[deleted].path, done="filter-deleted")


def _address(list_name: str, query: str) -> str:
    return f"{ROOT}{LISTS[list_name].path}?{query}"
