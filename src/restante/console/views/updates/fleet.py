"""The list of devices: filters with counts, saved filters, export; and what of the fleet needs attention."""

import asyncio
from collections.abc import Callable
from typing import Any
from urllib.parse import urlencode

import msgspec

from restante.console.live import UPDATES
from restante.console.navigation import ROOT
from restante.console.pages import Attention, ConsoleRequest, Pages, PageSet
from restante.console.views.bulk.jobs import filter_query
from restante.console.views.updates.devices import OPERATE, PATH, READ
from restante.core.errors import BadInput, RestanteError
from restante.database.paging import PageRequest
from restante.delivery.device_presence import DevicePresence
from restante.identity.grants import Area, Role
from restante.jobs.actions import JobActions
from restante.updates.fleet import groups, selection
from restante.updates.fleet.device_filter import CONFIG_STATES, FIELDS, DeviceFilter, parse_query
from restante.updates.fleet.fleet_counts import Count, Counts, FleetCounting
from restante.updates.fleet.groups import Group
from restante.updates.fleet.routes_fleet_list import with_last_poll
from restante.web.response import ApiResponse
from restante.web.routes import Route

ROWS = 50
GROUPS_SHOWN = 100
EXPIRES_WITHIN = "14d"
EXPIRING = DeviceFilter(certificate_expires_before=EXPIRES_WITHIN, status="active")
EXPORT_PATH = "/apiv1/devices/export"
# What the console itself puts into the address of the list.
OTHER_PARAMETERS = ("after", "limit", "done")


class FleetPages(PageSet):
    needs = READ

    def __init__(self, presence: DevicePresence, actions: Callable[[], JobActions]) -> None:
        self._presence = presence
        self._actions = actions

    def routes(self, pages: Pages) -> list[Route]:
        return [
            pages.get(PATH, self.show_list, READ),
            pages.post(PATH + "/groups", self.save_group, OPERATE),
            pages.post(PATH + "/groups/{group_id}/delete", self.delete_group, OPERATE),
        ]

    async def show_list(self, request: ConsoleRequest) -> ApiResponse:
        return await self._list(request, given_fields(request))

    async def save_group(self, request: ConsoleRequest) -> ApiResponse:
        """Save the filter of the page that the form was on as a group: a filter with a name."""
        form = request.form
        fields = {name: form.text(name, 300) for name in FIELDS if form.text(name, 300).strip()}
        name = form.text("group_name", 100).strip()
        try:
            saved = parse_query(fields.items())
            await request.write(groups.create, name, None, saved, request.actor, request.allowed)
        except RestanteError as error:
            return await self._list(request, fields, error)
        return request.redirect(f"{ROOT}{PATH}?{urlencode({'group': name})}", done="group-saved")

    async def delete_group(self, request: ConsoleRequest) -> ApiResponse:
        await request.write(groups.delete, request.path_id("group_id"), request.actor, request.allowed)
        return request.redirect(ROOT + PATH, done="group-deleted")

    async def attention(self, request: ConsoleRequest) -> list[Attention]:
        path = f"{ROOT}{PATH}?"
        every, expiring = await asyncio.gather(_count(request, DeviceFilter()), _count(request, EXPIRING))
        if every is None or expiring is None:
            return [Attention("waiting", "The devices are being counted", path[:-1], None)]
        return [
            Attention(kind, what, path + query, count.value)
            for kind, what, query, count in (
                ("failed", "Devices failed to apply their config", "config_version=failed", every.config["failed"]),
                ("overdue", "Devices should have polled by now", "overdue=true", every.overdue),
                (
                    "expiring",
                    "Devices with a certificate that ends within 14 days",
                    f"certificate_expires_before={EXPIRES_WITHIN}&status=active",
                    expiring.total,
                ),
            )
            if count.value
        ]

    def _bulk_path(self, request: ConsoleRequest, fields: dict[str, str]) -> str | None:
        """The page that acts on all devices of the list; None if there is no such action, or not for this person."""
        if not self._actions().of_target("devices") or not request.may(Area.updates, Role.operator):
            return None
        return f"{ROOT}/jobs/new?{urlencode([('target', 'devices'), *filter_query(fields)])}"

    async def _list(
        self, request: ConsoleRequest, fields: dict[str, str], problem: RestanteError | None = None
    ) -> ApiResponse:
        wanted, wrong = _filter_of(fields)
        shown = DeviceFilter() if wanted is None else wanted
        after = request.query_text("after") if request.http.method == "GET" and wanted is not None else None
        page = await request.read(selection.page, shown, after, ROWS, request.allowed)
        base = msgspec.structs.replace(shown, status=None, overdue=None, config_version=None)
        saved = await request.read(groups.list_page, PageRequest(GROUPS_SHOWN, 0), request.allowed)
        found, counts = await asyncio.gather(_count(request, shown), _count(request, base))
        error = problem or wrong
        return request.render(
            "devices/list.html",
            section="devices",
            title="Devices",
            topics=(UPDATES,),
            http_status=200 if error is None else error.status,
            rows=[with_last_poll(row, self._presence) for row in page.items],
            next=page.next,
            fields=fields,
            chips=_chips(fields, counts),
            found=count_text(None if found is None else found.total),
            groups=saved.items,
            current_group=_current_group(saved.items, fields),
            group_name=request.form.text("group_name"),
            problem="" if error is None else error.message,
            address=lambda **changed: address_of(fields, **changed),
            export_path=f"{EXPORT_PATH}?{urlencode(fields)}",
            config_states=CONFIG_STATES,
            may_save=request.may(Area.updates, Role.operator),
            is_filtered=bool(fields),
            bulk_path=self._bulk_path(request, fields),
        )


def given_fields(request: ConsoleRequest) -> dict[str, str]:
    """The filter in the address. A form sends its empty fields, too: they count as not given."""
    pairs = request.http.query_params.multi_items()
    return {name: value.strip() for name, value in pairs if name not in OTHER_PARAMETERS and value.strip()}


def address_of(fields: dict[str, str], **changed: Any) -> str:
    """The address of the list with some fields changed; None removes one. Paging begins anew."""
    query = {name: value for name, value in {**fields, **changed}.items() if value is not None}
    return f"{ROOT}{PATH}?{urlencode(query)}" if query else ROOT + PATH


def count_text(count: Count | None) -> str:
    """The count; an ellipsis if it is not known yet."""
    if count is None:
        return "…"
    digits = f"{count.value:,}".replace(",", "\u202f")
    return digits if count.is_exact else f"{digits}+"


def _filter_of(fields: dict[str, str]) -> tuple[DeviceFilter | None, RestanteError | None]:
    try:
        return parse_query(fields.items()), None
    except BadInput as error:
        return None, error


async def _count(request: ConsoleRequest, wanted: DeviceFilter) -> Counts | None:
    return await request.count(UPDATES, wanted, lambda: FleetCounting(wanted, request.allowed))


def _chips(fields: dict[str, str], counts: Counts | None) -> list[tuple[str, str, bool, str]]:
    """The quick filters: text, address, whether it is on, how many devices."""
    own = {name: fields.get(name) for name in ("status", "overdue", "config_version")}
    none: dict[str, str | None] = {"status": None, "overdue": None, "config_version": None}
    choices: list[tuple[str, dict[str, str | None], Callable[[Counts], Count]]] = [
        ("All", {}, lambda found: found.total),
        ("Active", {"status": "active"}, lambda found: found.status["active"]),
        ("Overdue", {"overdue": "true"}, lambda found: found.overdue),
        ("Config behind", {"config_version": "behind"}, lambda found: found.config["behind"]),
        ("Config applied", {"config_version": "applied"}, lambda found: found.config["applied"]),
        ("Config failed", {"config_version": "failed"}, lambda found: found.config["failed"]),
        ("Revoked", {"status": "revoked"}, lambda found: found.status["revoked"]),
    ]
    return [
        (
            text,
            address_of(fields, **{**none, **choice}),
            own == {**none, **choice},
            count_text(None if counts is None else count(counts)),
        )
        for text, choice, count in choices
    ]


def _current_group(saved: list[Group], fields: dict[str, str]) -> Group | None:
    name = fields.get("group")
    return next((group for group in saved if name in (group.name, str(group.id))), None)
