import pytest
from starlette.requests import Request

from restante.commands.audit_verify import verify_export
from restante.commands.routes_admin_audit import AdminAuditRoutes
from restante.core.errors import Unprocessable
from restante.database.database import Database
from restante.identity.callers import Role
from restante.web.ask import Ask
from tests.commands.operators import Office, World, field_of, open_office
from tests.conftest import ManualClock


@pytest.fixture
async def office(database: Database, clock: ManualClock) -> Office:
    return await open_office(World(database, clock))


async def test_query(office: Office) -> None:
    made = (await office.create()).json()
    answer = await office.call("GET", f"/audit?command_id={made['command_id']}", role=Role.viewer)
    (row,) = answer.json()["items"]
    assert (row["event"], row["actor"], row["site_id"]) == ("command.created", "key:operator", office.world.site_id)
    assert row["detail"]["command_type"] == "HASHING_ENABLE"
    page = (await office.call("GET", "/audit?limit=2")).json()
    rest = (await office.call("GET", f"/audit?limit=2&after={page['next']}")).json()
    ids = [row["id"] for row in page["items"] + rest["items"]]
    assert ids == sorted(ids, reverse=True)
    assert len(set(ids)) == 4


async def test_query_by_time_event_and_site(office: Office) -> None:
    office.world.clock.advance(60)
    await office.create()
    recent = "since=2027-01-15T08:01:00Z"
    for query, count in (
        (recent, 1),
        (f"{recent}&site_id={office.world.other_site}", 0),
        (f"{recent}&until=2027-01-15T08:01:00Z", 0),
        ("event=command.created", 1),
        ("event=miner.created&site_id=2", 1),
    ):
        assert len((await office.call("GET", f"/audit?{query}")).json()["items"]) == count


@pytest.mark.parametrize("query", ["since=yesterday", "until=x", "site_id=x", "limit=0"])
async def test_filters_are_checked(office: Office, query: str) -> None:
    assert field_of(await office.call("GET", f"/audit?{query}")) == query.partition("=")[0]


async def test_an_export_proves_itself(office: Office) -> None:
    await office.create()
    answer = await office.call("GET", "/audit/export", role=Role.viewer)
    assert answer.headers["content-type"] == "application/jsonl"
    verdict = verify_export(answer.content.splitlines(), office.world.trail.mac)
    assert (verdict.intact, verdict.rows) == (True, office.world.count("command_audit"))
    one = await office.call("GET", f"/audit/export?site_id={office.world.site_id}")
    assert verify_export(one.content.splitlines(), office.world.trail.mac).chains == 1
    tampered = answer.content.replace(b"key:operator", b"key:somebody")
    assert not verify_export(tampered.splitlines(), office.world.trail.mac).intact


async def test_an_export_that_would_be_too_long_is_refused(office: Office) -> None:
    routes = AdminAuditRoutes(office.world.database, office.world.trail, export_rows_max=8)
    asked = Ask(Request({"type": "http", "query_string": b"", "headers": []}), None)
    with pytest.raises(Unprocessable):
        await routes.export(asked)
    one = Ask(Request({"type": "http", "query_string": b"site_id=1", "headers": []}), None)
    assert (await routes.export(one)).status == 200


async def test_verify(office: Office) -> None:
    await office.create()
    answer = (await office.call("GET", "/audit/verify", role=Role.viewer)).json()
    assert (answer["intact"], answer["broken"]) == (True, None)
    office.world.query("UPDATE command_audit SET actor = 'mallory' WHERE chain = 1 AND n = 3")
    answer = (await office.call("GET", "/audit/verify")).json()
    assert not answer["intact"]
    assert (answer["broken"]["chain"], answer["broken"]["n"]) == (1, 3)
