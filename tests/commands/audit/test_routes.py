import pytest

from restante.commands.audit.audit_verify import verify_export
from restante.identity.callers import Role
from tests.commands.operator_fixture import OperatorApi, field_of


async def test_rows_of_a_command_are_listed_in_pages(api: OperatorApi) -> None:
    command = (await api.create()).json()
    response = await api.call("GET", f"/audit?command_id={command['command_id']}", role=Role.viewer)
    (row,) = response.json()["items"]
    assert (row["event"], row["actor"], row["site_id"]) == ("command.created", "key:operator", api.fleet.site_id)
    assert row["detail"]["command_type"] == "HASHING_ENABLE"
    page = (await api.call("GET", "/audit?limit=2")).json()
    rest = (await api.call("GET", f"/audit?limit=2&after={page['next']}")).json()
    ids = [row["id"] for row in page["items"] + rest["items"]]
    assert ids == sorted(ids, reverse=True)
    assert len(set(ids)) == 4


async def test_rows_are_filtered_by_time_event_and_site(api: OperatorApi) -> None:
    api.fleet.clock.advance(60)
    await api.create()
    recent = "since=2027-01-15T08:01:00Z"
    for query, count in (
        (recent, 1),
        (f"{recent}&site_id={api.fleet.other_site}", 0),
        (f"{recent}&until=2027-01-15T08:01:00Z", 0),
        ("event=command.created", 1),
        ("event=miner.created&site_id=2", 1),
    ):
        assert len((await api.call("GET", f"/audit?{query}")).json()["items"]) == count


@pytest.mark.parametrize("query", ["since=yesterday", "until=x", "site_id=x", "limit=0"])
async def test_invalid_filter_is_named(api: OperatorApi, query: str) -> None:
    assert field_of(await api.call("GET", f"/audit?{query}")) == query.partition("=")[0]


async def test_export_verifies_and_a_changed_one_does_not(api: OperatorApi) -> None:
    await api.create()
    response = await api.call("GET", "/audit/export", role=Role.viewer)
    assert response.headers["content-type"] == "application/jsonl"
    verdict = verify_export(response.content.splitlines(), api.fleet.trail.mac)
    assert (verdict.intact, verdict.rows) == (True, api.fleet.count("command_audit"))
    one = await api.call("GET", f"/audit/export?site_id={api.fleet.site_id}")
    assert verify_export(one.content.splitlines(), api.fleet.trail.mac).chains == 1
    tampered = response.content.replace(b"key:operator", b"key:somebody")
    assert not verify_export(tampered.splitlines(), api.fleet.trail.mac).intact


async def test_verify_reports_the_broken_row(api: OperatorApi) -> None:
    await api.create()
    response = (await api.call("GET", "/audit/verify", role=Role.viewer)).json()
    assert (response["intact"], response["broken"]) == (True, None)
    api.fleet.query("UPDATE command_audit SET actor = 'mallory' WHERE chain = 1 AND n = 3")
    response = (await api.call("GET", "/audit/verify")).json()
    assert not response["intact"]
    assert (response["broken"]["chain"], response["broken"]["n"]) == (1, 3)
