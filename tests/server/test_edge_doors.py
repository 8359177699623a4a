"""What a collector or an operator names that is not theirs to name: another site's things, and things that are nowhere.

Wherever an id could tell somebody that a thing exists at another site, both look the same.
"""

from collections.abc import Callable, Iterator
from typing import Any

import httpx
import pytest

from restante.commands import cancelling
from restante.web.routes import Route
from tests.server.edge_things import EdgeThings
from tests.server.good_edge_bodies import EDGE_BODIES, READ_BY_THEMSELVES
from tests.server.inhabited import ABSENT_ID, Callers, Inhabited, Things
from tests.server.route_table import every_route, route_name

TRAIL = {"command_audit", "audit_checkpoints", "sqlite_sequence"}


@pytest.fixture(scope="module")
def inhabited(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Inhabited]:
    inhabited = Inhabited(tmp_path_factory.mktemp("edge_doors"))
    yield inhabited
    inhabited.close()


@pytest.fixture(scope="module")
def things(inhabited: Inhabited) -> Things:
    return inhabited.add_things(inhabited.world.user_id)


@pytest.fixture(scope="module")
def callers(inhabited: Inhabited, things: Things) -> Callers:
    return Callers(inhabited, things)


@pytest.fixture(scope="module")
def foreign(inhabited: Inhabited) -> EdgeThings:
    return inhabited.add_edge_things()


def things_there(inhabited: Inhabited) -> dict[str, Any]:
    """All but the trail, in which refused ACKs are told, and the ids that come next."""
    return {name: rows for name, rows in inhabited.dump().items() if name not in TRAIL}


def route_called(name: str) -> Route:
    return next(route for route in every_route() if route_name(route) == name)


def seen(answer: httpx.Response) -> tuple[int, bytes, list[tuple[str, str]]]:
    headers = [pair for pair in answer.headers.multi_items() if pair[0] != "date"]
    return answer.status_code, answer.content, headers


@pytest.mark.parametrize("verb", ["ack", "extend"])
def test_another_sites_command_is_denied_whatever_it_is_at(
    inhabited: Inhabited, callers: Callers, foreign: EdgeThings, verb: str
) -> None:
    """Held, waiting, not approved, cancelled: who is not of the site cannot tell."""
    ended = inhabited.add_edge_things().command_id
    inhabited.node.database.write_now(cancelling.cancel, inhabited.node.commands.trail, ended, "tests")
    route = route_called(f"POST /api/edge/v1/commands/{{command_id}}/{verb}")
    body = EDGE_BODIES[route.method, route.path][0](foreign)
    before = things_there(inhabited)
    answers = [
        inhabited.ask(route, route.path.replace("{command_id}", command_id), callers.headers["collector"], body)
        for command_id in (foreign.command_id, foreign.pending_id, foreign.approval_id, ended)
    ]
    assert answers[0].status_code == 403
    assert answers[0].json() == {
        "error": "ACCESS_DENIED",
        "message": "This device is not authorized for this site.",
    }
    assert {answer.content for answer in answers} == {answers[0].content}
    assert things_there(inhabited) == before


def test_another_sites_zone_is_denied_as_one_that_is_nowhere(
    inhabited: Inhabited, callers: Callers, foreign: EdgeThings
) -> None:
    route = route_called("GET /api/edge/v1/commands/poll")
    before = inhabited.dump()
    anothers, absent = (
        inhabited.ask(route, f"{route.path}?zone_id={zone_id}", callers.headers["collector"])
        for zone_id in (foreign.zone_id, ABSENT_ID)
    )
    assert anothers.json()["error"] == "ACCESS_DENIED"
    assert seen(anothers) == seen(absent)
    assert inhabited.dump() == before


Change = Callable[[dict[str, Any], int], dict[str, Any]]


def in_field(name: str) -> Change:
    return lambda body, id_: {**body, name: id_}


def in_list(name: str) -> Change:
    return lambda body, id_: {**body, name: [*body[name], id_]}


def in_first_of(name: str) -> Change:
    return lambda body, id_: {**body, name: [{**body[name][0], "miner_id": id_}]}


# Where an id in a body names something of a site, which of its bodies, and whose id is put there.
IDS_IN_BODIES: list[tuple[str, int, str, Change]] = [
    ("POST /api/edge/v1/admin/commands", 0, "miner_id", in_field("miner_id")),
    ("POST /api/edge/v1/admin/commands", 0, "zone_id", in_field("zone_id")),
    ("POST /api/edge/v1/admin/commands", 1, "miner_id", in_list("target_ids")),
    ("POST /api/edge/v1/admin/commands", 2, "zone_id", in_field("zone_id")),
    ("POST /api/edge/v1/admin/commands", 3, "miner_id", in_first_of("commands")),
    ("POST /api/edge/v1/admin/devices", 0, "zone_id", in_field("zone_id")),
    ("POST /api/edge/v1/admin/miners", 0, "zone_id", in_field("zone_id")),
    ("POST /api/edge/v1/admin/rules", 0, "miner_id", in_list("miner_ids")),
    ("PUT /api/edge/v1/admin/rules/{rule_id}", 0, "miner_id", in_list("miner_ids")),
    ("PATCH /api/edge/v1/admin/rules/{rule_id}", 0, "miner_id", in_list("miner_ids")),
    ("POST /api/edge/v1/telemetry/batch", 0, "miner_id", in_first_of("records")),
    ("POST /api/edge/v1/telemetry/batch", 0, "site_id", in_field("site_id")),
    ("POST /api/edge/v1/events/safety/batch", 0, "miner_id", in_first_of("events")),
]


@pytest.mark.parametrize(("name", "place", "thing", "change"), IDS_IN_BODIES)
def test_another_sites_things_in_bodies_look_as_those_that_are_nowhere(
    inhabited: Inhabited,
    things: Things,
    callers: Callers,
    foreign: EdgeThings,
    name: str,
    place: int,
    thing: str,
    change: Change,
) -> None:
    route = route_called(name)
    body = {**EDGE_BODIES, **READ_BY_THEMSELVES}[route.method, route.path][place](things.edge)
    caller = "admin key" if "/admin/" in route.path else "collector"
    path = route.path.replace("{rule_id}", str(things.edge.rule_id))
    before = inhabited.dump()
    anothers, absent = (
        inhabited.ask(route, path, callers.headers[caller], change(body, id_))
        for id_ in (getattr(foreign, thing), ABSENT_ID)
    )
    is_kept_in_part = route.path.endswith("/batch") and thing == "miner_id"
    assert anothers.status_code in ((200, 207) if is_kept_in_part else (400, 403)), anothers.text
    if is_kept_in_part:
        assert anothers.json()["processed"] == 0
    without_time = (answer.text.replace(answer.json().get("received_at", "-"), "*") for answer in (anothers, absent))
    assert len(set(without_time)) == 1
    assert inhabited.dump() == before
