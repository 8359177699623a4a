"""Automation rules for operators: make, look at, change, switch on and off, delete."""

from functools import partial

from restante.commands import rules
from restante.commands.audit import AuditTrail
from restante.commands.rules import Rule, RuleChange, RuleState, RuleWish
from restante.commands.wire import SHAPE
from restante.core.errors import BadInput
from restante.database.database import Database
from restante.web.answer import Answer
from restante.web.ask import INT64_MAX, Ask
from restante.web.paging import PAGE_QUERY, Page, window_of
from restante.web.routes import Access, Query, Route

PATH = "/api/edge/v1/admin/rules"
ONE = PATH + "/{rule_id}"

_FILTERS = (
    Query("site_id", "of which site", {"type": "integer", "minimum": 1}),
    Query("enabled", "only those that are, or are not", {"type": "boolean"}),
)
_YES_OR_NO = {"true": True, "false": False}


class RuleRoutes:
    def __init__(self, database: Database, trail: AuditTrail) -> None:
        self._database = database
        self._trail = trail

    def routes(self) -> list[Route]:
        row = partial(Route, shape=SHAPE, tag="rules")
        listed = (*_FILTERS, *PAGE_QUERY)
        operate = Access.operate
        return [
            row("POST", PATH, self.create, operate, "Make a rule", status=201, refusals=(409,)),
            row("GET", PATH, self.list_page, Access.read, "Rules, a page at a time", query=listed),
            row("GET", ONE, self.get, Access.read, "One rule"),
            row("PUT", ONE, self.replace, operate, "Replace a rule"),
            row("PATCH", ONE, self.change, operate, "Change some of a rule"),
            row("DELETE", ONE, self.delete, operate, "Delete a rule", status=204),
            row("POST", ONE + "/enable", self.enable, operate, "Switch a rule on"),
            row("POST", ONE + "/disable", self.disable, operate, "Switch a rule off"),
            row(
                "GET",
                ONE + "/states",
                self.states,
                Access.read,
                "Where a rule stands with the miners it has had to do with",
                query=PAGE_QUERY,
            ),
        ]

    async def create(self, ask: Ask, body: RuleWish) -> Rule:
        """A threshold rule fires when a measurement has been past its bound for the duration; an offline rule when a
        miner that has reported before has been silent for it. It makes a command for the miner, at most one at a time,
        and not again within the cooldown."""
        return await self._database.write(rules.create, self._trail, body, ask.actor)

    async def list_page(self, ask: Ask) -> Page[Rule]:
        site_id = ask.query_int("site_id", 0, 1, INT64_MAX) or None
        enabled = ask.query_text("enabled")
        if enabled is not None and enabled not in _YES_OR_NO:
            raise BadInput("enabled", "true or false")
        wanted = None if enabled is None else _YES_OR_NO[enabled]
        return await self._database.read(rules.list_page, site_id, wanted, window_of(ask))

    async def get(self, ask: Ask) -> Rule:
        return await self._database.read(rules.get, ask.path_id("rule_id"))

    async def replace(self, ask: Ask, body: RuleWish) -> Rule:
        """What the rule had observed so far is forgotten; when it last fired is not."""
        return await self._database.write(rules.replace, self._trail, ask.path_id("rule_id"), body, ask.actor)

    async def change(self, ask: Ask, body: RuleChange) -> Rule:
        """As replacing it, with what is not named as it was."""
        return await self._database.write(rules.change, self._trail, ask.path_id("rule_id"), body, ask.actor)

    async def delete(self, ask: Ask) -> Answer:
        await self._database.write(rules.delete, self._trail, ask.path_id("rule_id"), ask.actor)
        return Answer(204)

    async def enable(self, ask: Ask) -> Rule:
        return await self._switch(ask, True)

    async def disable(self, ask: Ask) -> Rule:
        return await self._switch(ask, False)

    async def states(self, ask: Ask) -> Page[RuleState]:
        return await self._database.read(rules.states, ask.path_id("rule_id"), window_of(ask))

    async def _switch(self, ask: Ask, enabled: bool) -> Rule:
        wanted = RuleChange(enabled=enabled)
        return await self._database.write(rules.change, self._trail, ask.path_id("rule_id"), wanted, ask.actor)
