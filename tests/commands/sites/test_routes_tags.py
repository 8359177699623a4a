"""Tags of collectors and miners over HTTP: shown in lists, recorded in the audit trail of the site."""

from tests.commands.operator_fixture import OperatorApi, error_of, field_of


async def test_tags_are_shown_and_audited(api: OperatorApi) -> None:
    body = {"site_id": api.fleet.site_id, "device_name": "roof"}
    collector = (await api.call("POST", "/devices", body)).json()["id"]
    for path in (f"/devices/{collector}", f"/miners/{api.fleet.miner}"):
        for tag in ("rack=7", "new", "new"):
            tagged = await api.call("PUT", f"{path}/tags/{tag}")
            assert tagged.status_code == 200, tagged.text
        assert tagged.json() == {"tags": ["new", "rack=7"]}
        assert (await api.call("DELETE", f"{path}/tags/new")).json() == {"tags": ["rack=7"]}
        assert (await api.call("DELETE", f"{path}/tags/new")).json() == {"tags": ["rack=7"]}
    miners = (await api.call("GET", "/miners")).json()["items"]
    assert [miner["tags"] for miner in miners if miner["id"] == api.fleet.miner] == [["rack=7"]]
    assert (await api.call("GET", f"/devices/{collector}")).json()["tags"] == ["rack=7"]
    assert [each["tags"] for each in (await api.call("GET", "/devices")).json()["items"]] == [["rack=7"]]
    events = [row["event"] for row in (await api.call("GET", "/audit")).json()["items"]]
    assert events[:6] == [
        *("miner.untagged", "miner.tagged", "miner.tagged"),
        *("collector.untagged", "collector.tagged", "collector.tagged"),
    ]


async def test_missing_resource_and_wrong_tag_are_refused(api: OperatorApi) -> None:
    for path in ("/devices/999", "/miners/999"):
        assert error_of(await api.call("PUT", f"{path}/tags/x"))[0] == 404
    assert field_of(await api.call("PUT", f"/miners/{api.fleet.miner}/tags/X")) == "tag"
