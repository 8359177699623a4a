"""Sites: their collectors, miners with their latest telemetry, queue, rate windows, rules and safety events."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from restante.commands.audit.audit_trail import AuditTrail
from restante.commands.dispatch.rate_limits import RateRules, RateWindow, read_windows
from restante.commands.lifecycle import listing
from restante.commands.lifecycle.command_types import COMMAND_TYPES
from restante.commands.lifecycle.listing import CommandFilter, CommandView
from restante.commands.rules import rules
from restante.commands.rules.rules import Rule, RuleChange
from restante.commands.sites import collectors, miners, place_names, sites
from restante.commands.sites.collectors import Collector, CollectorFilter, SecretBox
from restante.commands.sites.miners import Miner, MinerFilter, MinerRequest
from restante.commands.sites.sites import Site
from restante.commands.telemetry import safety_events, telemetry
from restante.commands.telemetry.safety_events import SafetyEvent, SafetyFilter
from restante.commands.telemetry.telemetry import LatestRecord, PastRecord
from restante.console.live import CLOCK, COMMANDS
from restante.console.navigation import ROOT
from restante.console.pages import Attention, ConsoleRequest, Hit, Needs, Pages, PageSet
from restante.core.commands.command_states import State
from restante.core.decoding import DIGITS
from restante.core.errors import BadInput, Conflict, NotFound
from restante.database.connection import Connection
from restante.database.paging import PageRequest
from restante.identity.grants import AllowedIds, Area, Role
from restante.web.response import ApiResponse
from restante.web.routes import Route

PATH = "/sites"
MINERS_PATH = "/miners"
READ, OPERATE, ADMIN = (
    Needs(Area.commands),
    Needs(Area.commands, Role.operator),
    Needs(Area.commands, Role.admin),
)
# A collector polls every few seconds, or waits for half a minute.
COLLECTOR_SILENT_MS = 120_000
ROWS = 20
MINERS_PER_PAGE = 100
COLLECTORS_MAX = 200
SITES_SEARCHED = 500
HISTORY_POINTS = 60
TREND_POINTS = 20
# What a miner's row shows of its newest record, in this order: name, unit, decimals.
MEASUREMENTS = (("hashrate", "TH/s", 1), ("temp_max", "°C", 1), ("fan_rpm_max", "rpm", 0), ("power", "W", 0))


@dataclass(frozen=True, slots=True)
class SiteSummary:
    site: Site
    collectors: Sequence[Collector]
    last_seen_at: int | None


@dataclass(frozen=True, slots=True)
class SiteDetail:
    site: Site
    collectors: Sequence[Collector]
    miners: Sequence[Miner]
    next_miner: int | None
    latest: dict[int, LatestRecord]
    trends: dict[int, list[float]]
    queue: Sequence[CommandView]
    windows: Sequence[RateWindow]
    rules: Sequence[Rule]
    safety: Sequence[SafetyEvent]
    miner_names: dict[int, str]


class SitePages(PageSet):
    needs = READ

    def __init__(self, trail: AuditTrail, box: SecretBox, rates: RateRules, history_records: int) -> None:
        self._trail = trail
        self._box = box
        self._rates = rates
        self._history_records = history_records

    def routes(self, pages: Pages) -> list[Route]:
        one = PATH + "/{site_id}"
        return [
            pages.get(PATH, self.show_list, READ),
            pages.post(PATH, self.create, ADMIN),
            pages.get(one, self.show, READ),
            pages.post(one + "/miners", self.add_miner, ADMIN),
            pages.post(one + "/collectors", self.add_collector, ADMIN),
            pages.post(one + "/collectors/{device_id}/revoke", self.revoke_collector, ADMIN, is_final=True),
            pages.post(one + "/rules/{rule_id}/{change}", self.change_rule, OPERATE),
            pages.get(MINERS_PATH + "/{miner_id}", self.show_miner, READ),
        ]

    async def show_list(self, request: ConsoleRequest) -> ApiResponse:
        page = await request.read(sites.list_page, request.page(), request.allowed)
        return request.render(
            "sites/list.html",
            section="sites",
            title="Sites",
            topics=(COMMANDS, CLOCK),
            page=page,
            summaries=await request.read(_summaries, page.items),
            address=request.page_link,
            may_create=request.allowed.are_all and request.may(None, Role.admin),
        )

    async def create(self, request: ConsoleRequest) -> ApiResponse:
        request.require_all("a new site belongs to no scope yet")
        site = await request.write(sites.add, self._trail, request.form.required("name", 200), request.actor)
        return request.redirect(path_of(site.id), done="site-created")

    async def show(self, request: ConsoleRequest) -> ApiResponse:
        return await self._page(request, await self._site(request))

    async def add_miner(self, request: ConsoleRequest) -> ApiResponse:
        site, form = await self._site(request), request.form
        new = MinerRequest(site.id, form.required("name", 200), None, form.optional_number("id"))
        await request.write(miners.add, self._trail, new, request.actor)
        return request.redirect(path_of(site.id), done="miner-added")

    async def add_collector(self, request: ConsoleRequest) -> ApiResponse:
        """Its token and secret are on the page that follows, once."""
        site = await self._site(request)
        if site.retired_at is not None:
            raise Conflict("the site is retired")
        name = request.form.required("name", 200)
        new = await request.write(collectors.create, self._trail, self._box, site.id, None, name, request.actor)
        return await self._page(request, site, new_collector=new)

    async def revoke_collector(self, request: ConsoleRequest) -> ApiResponse:
        site, device_id = await self._site(request), request.path_id("device_id")
        collector = await request.read(collectors.find, device_id)
        if collector.site_id != site.id:
            raise NotFound()
        await request.write(collectors.revoke, self._trail, device_id, request.actor)
        return request.redirect(path_of(site.id), done="collector-revoked")

    async def change_rule(self, request: ConsoleRequest) -> ApiResponse:
        site, change = await self._site(request), request.path_text("change")
        if change not in ("enable", "disable"):
            raise NotFound()
        rule = await request.read(rules.get, request.path_id("rule_id"))
        if rule.site_id != site.id:
            raise NotFound()
        wanted = RuleChange(enabled=change == "enable")
        await request.write(rules.change, self._trail, self._box, rule.id, wanted, request.actor)
        return request.redirect(path_of(site.id), done=f"rule-{change}d")

    async def show_miner(self, request: ConsoleRequest) -> ApiResponse:
        found = await request.read(
            telemetry.read_miner,
            request.path_id("miner_id"),
            HISTORY_POINTS,
            self._history_records,
            None,
            request.allowed,
        )
        commands = await request.read(
            listing.list_page, CommandFilter(miner_id=found.miner_id), PageRequest(ROWS, 0), request.allowed
        )
        safety = SafetyFilter(site_id=found.site_id, miner_id=found.miner_id)
        events = await request.read(safety_events.list_page, safety, PageRequest(ROWS, 0), request.allowed)
        return request.render(
            "sites/miner.html",
            section="sites",
            title=f"Miner {found.miner_id}",
            topics=(COMMANDS, CLOCK),
            miner=found,
            series=_series(found.history),
            record=None if found.latest is None else found.latest.record,
            commands=commands.items,
            safety=events.items,
            may_send=request.may(Area.commands, Role.operator, found.site_id),
        )

    async def find(self, request: ConsoleRequest, text: str) -> list[Hit]:
        if DIGITS.fullmatch(text) and len(text) < 19:
            return await request.read(_find, int(text), request.allowed)
        some = await request.read(sites.list_page, PageRequest(SITES_SEARCHED, 0), request.allowed)
        found = [site for site in some.items if site.name.lower().startswith(text.lower())]
        return [Hit("Site", site.name, path_of(site.id), f"site {site.id}") for site in found[:ROWS]]

    async def attention(self, request: ConsoleRequest) -> list[Attention]:
        found = await request.read(_silent_collectors, request.parts.rendering.now_ms(), request.allowed)
        if not found:
            return []
        oldest = min((each.last_seen_at or each.created_at for each in found), default=None)
        path = path_of(found[0].site_id) if len({each.site_id for each in found}) == 1 else f"{ROOT}{PATH}"
        return [Attention("overdue", "Collectors do not poll", path, len(found), oldest)]

    async def _site(self, request: ConsoleRequest) -> Site:
        site_id = request.path_id("site_id")
        request.require(site_id)
        return await request.read(sites.get, site_id)

    async def _page(self, request: ConsoleRequest, site: Site, new_collector: Any = None) -> ApiResponse:
        window = PageRequest(MINERS_PER_PAGE, request.page().after)
        detail = await request.read(_detail, site, window, self._rates, self._history_records, request.allowed)
        is_admin = request.may(Area.commands, Role.admin, site.id)
        return request.render(
            "sites/site.html",
            section="sites",
            title=site.name,
            topics=(COMMANDS, CLOCK),
            detail=detail,
            site=site,
            path=path_of(site.id),
            measured=lambda record: _measured(record.record),
            is_silent=lambda each: _is_silent(each, request.parts.rendering.now_ms()),
            measurements=MEASUREMENTS,
            address=request.page_link,
            new_collector=new_collector,
            may_administer=is_admin and site.retired_at is None,
            may_operate=site.retired_at is None and request.may(Area.commands, Role.operator, site.id),
        )


def path_of(site_id: int) -> str:
    return f"{ROOT}{PATH}/{site_id}"


def _summaries(conn: Connection, found: Sequence[Site]) -> list[SiteSummary]:
    summaries = []
    for site in found:
        active = CollectorFilter(site.id, status="active")
        own = collectors.list_page(conn, active, PageRequest(COLLECTORS_MAX, 0)).items
        seen = max((each.last_seen_at for each in own if each.last_seen_at is not None), default=None)
        summaries.append(SiteSummary(site, own, seen))
    return summaries


def _detail(
    conn: Connection, site: Site, window: PageRequest, rates: RateRules, history_records: int, allowed: AllowedIds
) -> SiteDetail:
    some = PageRequest(ROWS, 0)
    page = miners.list_page(conn, MinerFilter(site.id), window, allowed)
    # Both lists are in the order of miner ids: the records of a page of miners begin after the same id.
    records = telemetry.latest_page(conn, site.id, window).items
    windows = read_windows(conn, rates, [(site.id, each) for each in COMMAND_TYPES])
    queue = [each for status in _OPEN for each in _in_state(conn, site.id, status, some, allowed)]
    safety = safety_events.list_page(conn, SafetyFilter(site_id=site.id), some, allowed).items
    named = {each.miner_id for each in queue if each.miner_id is not None} | {each.miner_id for each in safety}
    return SiteDetail(
        site,
        collectors.list_page(conn, CollectorFilter(site.id), PageRequest(COLLECTORS_MAX, 0), allowed).items,
        page.items,
        page.next,
        {each.miner_id: each for each in records},
        _trends(conn, [miner.id for miner in page.items], history_records),
        queue,
        [each for each in windows.values() if each.left < each.rule.limit],
        rules.list_page(conn, site.id, None, PageRequest(100, 0), allowed).items,
        safety,
        place_names.miner_names(conn, named),
    )


def _trends(conn: Connection, miner_ids: list[int], history_records: int) -> dict[int, list[float]]:
    """The last temperatures of each miner, oldest first."""
    recent = telemetry.recent_records(conn, miner_ids, TREND_POINTS, history_records)
    values = {miner_id: [_temperature(each).temp_max for each in records] for miner_id, records in recent.items()}
    return {miner_id: [each for each in found if each is not None] for miner_id, found in values.items()}


class Temperature(msgspec.Struct):
    temp_max: float | None = None


_temperature = msgspec.json.Decoder(Temperature).decode

_OPEN = (State.running, State.dispatched, State.pending, State.pending_approval)


def _in_state(
    conn: Connection, site_id: int, status: State, page: PageRequest, allowed: AllowedIds
) -> Sequence[CommandView]:
    return listing.list_page(conn, CommandFilter(site_id=site_id, status=status.value), page, allowed).items


def _silent_collectors(conn: Connection, now_ms: int, allowed: AllowedIds) -> list[Collector]:
    found = collectors.list_page(conn, CollectorFilter(status="active"), PageRequest(COLLECTORS_MAX, 0), allowed)
    return [each for each in found.items if _is_silent(each, now_ms)]


def _is_silent(collector: Collector, now_ms: int) -> bool:
    """Whether a collector that polled before has not polled for a while."""
    seen = collector.last_seen_at
    return collector.revoked_at is None and seen is not None and now_ms - seen > COLLECTOR_SILENT_MS


def _find(conn: Connection, number: int, allowed: AllowedIds) -> list[Hit]:
    hits = []
    try:
        if number in allowed:
            hits.append(Hit("Site", sites.get(conn, number).name, path_of(number), f"site {number}"))
    except (NotFound, BadInput):
        pass
    try:
        collector = collectors.find(conn, number)
        if collector.site_id in allowed:
            hits.append(Hit("Collector", collector.device_name, path_of(collector.site_id), f"collector {number}"))
    except NotFound:
        pass
    try:
        miner = telemetry.read_miner(conn, number, 1, 1, None, allowed)
        hits.append(Hit("Miner", f"{number}", f"{ROOT}{MINERS_PATH}/{number}", f"at site {miner.site_id}"))
    except NotFound:
        pass
    return hits


def _measured(record: msgspec.Raw) -> dict[str, Any]:
    values = msgspec.json.decode(record)
    return {name: values[name] for name, *_ in MEASUREMENTS if isinstance(values.get(name), int | float)}


def _series(history: Sequence[PastRecord]) -> list[tuple[str, str, list[float]]]:
    """The values of each measurement, oldest first, as far as the records have it."""
    past = [msgspec.json.decode(each.record) for each in reversed(history)]
    series = []
    for name, unit, _ in MEASUREMENTS:
        values = [float(each[name]) for each in past if isinstance(each.get(name), int | float)]
        if values:
            series.append((name.replace("_", " "), unit, values))
    return series
