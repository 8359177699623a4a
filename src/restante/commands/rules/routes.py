"""Routes for automation rules: create, read, change, enable, disable, delete."""

from restante.commands.audit.audit_trail import AuditTrail
from restante.commands.response_format import RESPONSE_FORMAT
from restante.commands.rules import rules
from restante.commands.rules.rules import Rule, RuleChange, RuleRequest, RuleState
from restante.commands.sites import site_scope
from restante.commands.sites.collectors import SecretBox
from restante.core.decoding import INT64_MAX
from restante.database.database import Database
from restante.database.paging import Page
from restante.identity.grants import Area
from restante.web.paging import PAGE_QUERY, page_request_of
from restante.web.request import ApiRequest
from restante.web.response import ApiResponse
from restante.web.routes import Access, Query, Route, RouteGroup

PATH = "/api/edge/v1/admin/rules"
ONE = PATH + "/{rule_id}"

_FILTERS = (
    Query("site_id", "only rules of this site", {"type": "integer", "minimum": 1, "maximum": INT64_MAX}),
    Query("enabled", "only enabled, or only disabled rules", {"type": "boolean"}),
)
_EXAMPLE = {
    "name": "restart when hot",
    "site_id": 1,
    "trigger_type": "threshold",
    "trigger_metric": "temp_max",
    "trigger_operator": ">",
    "trigger_value": 90,
    "trigger_duration_seconds": 60,
    "action_type": "MINER_RESTART",
}


class RuleRoutes:
    def __init__(self, database: Database, trail: AuditTrail, box: SecretBox) -> None:
        self._database = database
        self._trail = trail
        self._box = box

    def routes(self) -> list[Route]:
        group = RouteGroup("rules", RESPONSE_FORMAT, area=Area.commands)
        list_query = (*_FILTERS, *PAGE_QUERY)
        operate = Access.operate
        return [
            group.post(PATH, self.create, operate, "Create a rule", status=201, errors=(409,), examples=(_EXAMPLE,)),
            group.get(PATH, self.list_page, Access.read, "List rules", query=list_query),
            group.get(ONE, self.get, Access.read, "Show a rule"),
            group.put(ONE, self.replace, operate, "Replace a rule", examples=(_EXAMPLE,)),
            group.patch(ONE, self.change, operate, "Change some fields of a rule", examples=({"trigger_value": 92.5},)),
            group.delete(ONE, self.delete, operate, "Delete a rule", status=204),
            group.post(ONE + "/enable", self.enable, operate, "Enable a rule"),
            group.post(ONE + "/disable", self.disable, operate, "Disable a rule"),
            group.get(
                ONE + "/states",
                self.states,
                Access.read,
                "List the states of a rule, one for each miner that has one",
                query=PAGE_QUERY,
            ),
        ]

    async def create(self, request: ApiRequest, body: RuleRequest) -> Rule:
        """A threshold rule fires when a measurement has crossed its bound for the duration; an offline rule fires when
        a miner that has reported before has been silent for the duration. The rule creates a command for the miner, at
        most one at a time, and not again within the cooldown."""
        site_scope.check_body(request.allowed, body.site_id)
        return await self._database.write(rules.create, self._trail, self._box, body, request.actor, request.identities)

    async def list_page(self, request: ApiRequest) -> Page[Rule]:
        site_id = request.query_int("site_id", 0, 1, INT64_MAX) or None
        enabled = request.query_bool("enabled")
        return await self._database.read(rules.list_page, site_id, enabled, page_request_of(request), request.allowed)

    async def get(self, request: ApiRequest) -> Rule:
        return await self._database.read(rules.get, await self._rule_id(request))

    async def replace(self, request: ApiRequest, body: RuleRequest) -> Rule:
        """The durations start again; the time when the rule last fired is kept. A secret parameter that is sent back
        masked, as it is shown, keeps its value."""
        rule_id = await self._rule_id(request)
        return await self._database.write(
            rules.replace, self._trail, self._box, rule_id, body, request.actor, request.identities
        )

    async def change(self, request: ApiRequest, body: RuleChange) -> Rule:
        """Like replacing the rule; fields that are not named keep their values."""
        rule_id = await self._rule_id(request)
        return await self._database.write(
            rules.change, self._trail, self._box, rule_id, body, request.actor, request.identities
        )

    async def delete(self, request: ApiRequest) -> ApiResponse:
        await self._database.write(rules.delete, self._trail, await self._rule_id(request), request.actor)
        return ApiResponse(204)

    async def enable(self, request: ApiRequest) -> Rule:
        return await self._switch(request, True)

    async def disable(self, request: ApiRequest) -> Rule:
        return await self._switch(request, False)

    async def states(self, request: ApiRequest) -> Page[RuleState]:
        return await self._database.read(rules.states, await self._rule_id(request), page_request_of(request))

    async def _switch(self, request: ApiRequest, enabled: bool) -> Rule:
        change = RuleChange(enabled=enabled)
        return await self._database.write(
            rules.change,
            self._trail,
            self._box,
            await self._rule_id(request),
            change,
            request.actor,
            request.identities,
        )

    async def _rule_id(self, request: ApiRequest) -> int:
        """The rule of the path; NotFound if it is outside the caller's grants."""
        rule_id = request.path_id("rule_id")
        await site_scope.check_rule(self._database, request.allowed, rule_id)
        return rule_id
