"""Bulk actions on devices, through the route and the job engine."""

import asyncio
from collections.abc import Iterable
from typing import Any

import httpx
import msgspec
import pytest

from restante.core.iso_time import iso_precise
from restante.database.database import Database
from restante.database.paging import PageRequest
from restante.delivery.outbox import outbox
from restante.identity import access_audit, api_keys, tags
from restante.identity.callers import Role
from restante.identity.grants import Grants, checked_grants
from restante.identity.signing_keys import SigningKeys
from restante.jobs import jobs
from restante.jobs.actions import JobActions
from restante.jobs.jobs import JobItemView, JobView
from restante.jobs.runner import JobRunner
from restante.updates.bulk.routes import DeviceBulkRoutes, device_job_actions
from restante.updates.install import install_configs
from restante.updates.install.install_items import checked_installs
from restante.updates.pki import assignments, certificates
from restante.updates.pki.issuing import NO_RULES
from restante.updates.response_format import RESPONSE_FORMAT
from restante.web.access import AccessControl
from tests.conftest import ManualClock
from tests.defaults import new_application, new_device_tokens
from tests.jobs.job_fixture import run_until_idle
from tests.updates.updates_fixture import DeviceFleet, FleetDevice

ITEM = {"id": "site", "type": "copy", "from": ["fullchain.pem"], "to": ["/etc/ssl/site.pem"]}
AUDITED = "SELECT actor, event, detail FROM access_audit WHERE job IS NOT NULL ORDER BY id"


class DeviceBulkApi:
    """Three devices of one user, of which two have the tag `kiosk`, and one of another user, with that tag, too."""

    def __init__(self, database: Database) -> None:
        self.database = database
        self.fleet = fleet = DeviceFleet(database)
        self.devices = [fleet.add_device(), fleet.add_device(), fleet.add_device(), fleet.add_device(fleet.other_id)]
        for device in (self.devices[0], self.devices[1], self.devices[3]):
            database.write_now(tags.add, "device", device.id, "kiosk")
        self.actions = device_job_actions(outbox.enqueue, outbox.enqueue_all, fleet.master_key, NO_RULES)
        tokens = new_device_tokens(database, SigningKeys(database, fleet.master_key))
        routes = DeviceBulkRoutes(database, self.actions).routes()
        application = new_application(routes, AccessControl(database, tokens), RESPONSE_FORMAT)
        self._transport = httpx.ASGITransport(application)

    async def post(self, grants: Grants | Role = Role.operator, **body: Any) -> httpx.Response:
        _, key = self.database.write_now(api_keys.create, "robot", grants)
        async with httpx.AsyncClient(transport=self._transport, base_url="http://restante.test") as client:
            return await client.post("/apiv1/devices/bulk", headers={"authorization": f"Bearer {key}"}, json=body)

    async def bulk(self, action: str, params: Any = None, **body: Any) -> JobView:
        """Create a job on the devices with the tag, and run it."""
        body = {"filter": {"tag": "kiosk"}, **body, "params": params or {}}
        response = await self.post(action=action, **body)
        assert response.status_code == 202, response.text
        await run_until_idle(JobRunner(self.database, JobActions(self.actions)))
        return self.job(response.json()["data"]["job_id"])

    def job(self, job_id: str) -> JobView:
        actions = JobActions(self.actions)
        return self.database.read_now(lambda conn: jobs.show(conn, actions, jobs.find(conn, job_id)))

    def items(self, job: JobView) -> list[JobItemView]:
        page = PageRequest(500, 0)
        actions = JobActions(self.actions)
        return self.database.read_now(
            lambda conn: jobs.items_page(conn, actions, jobs.find(conn, job.job_id), None, page)
        ).items

    def put(self, devices: Iterable[FleetDevice], *items: dict[str, Any]) -> None:
        for device in devices:
            user_id = self.fleet.other_id if device is self.devices[3] else self.fleet.user_id
            edit = install_configs.ConfigEdit(user_id, device.id, "tests")
            checked = checked_installs(list(items))
            self.database.write_now(install_configs.put, outbox.enqueue, edit, checked, "true")

    def config(self, device: FleetDevice) -> tuple[int, Any, str | None]:
        found = self.database.read_now(install_configs.current, device.id)
        return found.version, msgspec.json.decode(found.installs), found.after_update_script


@pytest.fixture
def api(database: Database) -> DeviceBulkApi:
    return DeviceBulkApi(database)


async def test_config_is_put_on_every_device_that_matches(api: DeviceBulkApi) -> None:
    api.put([api.devices[1]], ITEM)
    job = await api.bulk("put_config", {"installs": [{**ITEM, "enabled": False}], "change_note": "off"})
    assert (job.state, job.total, job.done) == ("done", 3, 3)
    assert [item.result for item in api.items(job)] == ["1", "2", "1"]
    version, installs, script = api.config(api.devices[1])
    assert (version, installs, script) == (2, [{**ITEM, "enabled": False}], None)
    history = api.database.read_now(
        install_configs.history, api.fleet.user_id, api.devices[1].id, PageRequest(10, 0)
    ).items
    assert [(entry.version, entry.change_note, entry.changed_by) for entry in history] == [
        (1, None, "tests"),
        (2, "off", "key:robot"),
    ]
    [signal] = api.fleet.signals(api.devices[0])
    current = api.database.read_now(install_configs.current, api.devices[0].id)
    assert signal == {
        "type": "install.updated",
        "ref": {"config_id": current.id, "version": 1, "installs_hash_b64": current.installs_hash},
    }
    assert api.fleet.signals(api.devices[2]) == []
    audited = api.fleet.query(AUDITED)
    assert [(row["actor"], row["event"]) for row in audited] == [("key:robot", "device.put_config")] * 3
    assert msgspec.json.decode(audited[1]["detail"])["version"] == 2


async def test_job_shows_what_devices_did_with_their_version(api: DeviceBulkApi) -> None:
    job = await api.bulk("put_config", {"installs": [ITEM]})
    assert job.outcomes == {"waiting": 3}
    first, second = api.devices[0], api.devices[1]
    api.database.write_now(install_configs.mark_fetched, first.id, 1)
    api.database.write_now(install_configs.mark_outcome, first.id, 1, None)
    api.database.write_now(install_configs.mark_fetched, second.id, 1)
    api.database.write_now(install_configs.mark_outcome, second.id, 1, "disk full")
    assert api.job(job.job_id).outcomes == {"applied": 1, "failed": 1, "waiting": 1}


async def test_device_that_has_the_content_already_is_skipped(api: DeviceBulkApi) -> None:
    await api.bulk("put_config", {"installs": [ITEM]})
    again = await api.bulk("put_config", {"installs": [ITEM]})
    assert (again.state, again.done, again.skipped) == ("done", 0, 3)
    assert len(api.fleet.signals(api.devices[0])) == 1


async def test_revoked_device_and_foreign_object_fail_alone(api: DeviceBulkApi) -> None:
    certificate = api.fleet.add_certificate()
    api.fleet.revoke_device(api.devices[1])
    installs = [{**ITEM, "ob_type": "cert", "ob_id": certificate.id}]
    job = await api.bulk("put_config", {"installs": installs})
    assert (job.done, job.failed) == (1, 2)
    assert [item.error for item in api.items(job)] == [
        None,
        "the device is revoked",
        "installs[0].ob_id: expected the id of a cert of this user",
    ]


async def test_config_is_patched_and_devices_without_one_are_named(api: DeviceBulkApi) -> None:
    api.put([api.devices[0]], ITEM, {"id": "old", "type": "exec"})
    api.put([api.devices[1]], {"id": "other", "type": "exec"})
    patch = {"installs": {"site": {"enabled": False}, "old": None}}
    job = await api.bulk("patch_config", {"patch": patch})
    assert (job.done, job.failed) == (1, 2)
    assert api.config(api.devices[0]) == (2, [{**ITEM, "enabled": False}], "true")
    errors = [item.error or "" for item in api.items(job)]
    # The second device has no item `site`, so that the patch would add one without a type.
    assert "type" in errors[1]
    assert errors[2] == "The device has no install config."


async def test_signal_is_sent_to_active_devices(api: DeviceBulkApi) -> None:
    api.fleet.revoke_device(api.devices[3])
    job = await api.bulk("send_signal", {"type": "app.refresh", "ref": {"id": 7}})
    assert (job.done, job.failed) == (2, 1)
    assert api.fleet.signals(api.devices[0]) == [{"type": "app.refresh", "ref": {"id": 7}}]


async def test_certificate_and_authority_are_assigned_to_the_devices_of_their_user(api: DeviceBulkApi) -> None:
    certificate, authority = api.fleet.add_certificate(), api.fleet.add_authority()
    job = await api.bulk("assign_certificate", {"cert_id": certificate.id})
    assert (job.done, job.failed) == (2, 1)
    assert api.database.read_now(assignments.active_holders, certificate.id) == [
        device.id for device in api.devices[:2]
    ]
    job = await api.bulk("assign_ca", {"ca_id": authority.id})
    assert (job.done, job.failed) == (2, 1)
    assert api.fleet.signal_types(api.devices[1]) == ["ca.assigned"]


async def test_certificates_of_devices_are_renewed_once(api: DeviceBulkApi, clock: ManualClock) -> None:
    shared = api.fleet.add_certificate()
    api.fleet.issue(shared.id)
    for device in api.devices[:2]:
        api.database.write_now(assignments.assign, api.fleet.user_id, device.id, shared.id)
    clock.advance(60)
    job = await api.bulk("renew_certificates", {"validity_seconds": 7200})
    assert (job.state, job.done, job.skipped) == ("done", 1, 2)
    renewed = api.database.read_now(certificates.get, api.fleet.user_id, shared.id)
    assert renewed.not_after == iso_precise(clock.now_ms // 1000 * 1000 + 7_200_000)
    assert [api.fleet.signal_types(device).count("cert.renewed") for device in api.devices[:2]] == [1, 1]
    late = await api.bulk("renew_certificates", {"expiring_within_seconds": 60})
    assert (late.done, late.skipped) == (0, 3)


async def test_devices_are_revoked_and_revoked_ones_do_not_match(api: DeviceBulkApi) -> None:
    api.fleet.revoke_device(api.devices[0])
    job = await api.bulk("revoke")
    assert (job.total, job.done) == (2, 2)


async def test_key_of_one_user_reaches_only_that_users_devices(api: DeviceBulkApi) -> None:
    grants = checked_grants([(Role.operator, f"updates:{api.fleet.other_id}")])
    body = {"action": "revoke", "all": True, "dry_run": True}
    assert (await api.post(grants, **body)).json()["data"]["total"] == 1
    foreign = {"action": "revoke", "filter": {"user_id": api.fleet.user_id}}
    assert (await api.post(grants, **foreign)).status_code == 400


@pytest.mark.parametrize(
    ("body", "field"),
    [
        (
            {"action": "put_config", "filter": {"tag": "kiosk"}, "params": {"installs": [{"id": "x"}]}},
            "params.installs",
        ),
        ({"action": "put_config", "filter": {"tag": "A B"}, "params": {"installs": []}}, "filter.tag"),
        ({"action": "patch_config", "filter": {"tag": "kiosk"}, "params": {"patch": {}}}, "params.patch"),
        ({"action": "put_config", "filter": {"config_version": "behnd"}, "params": {"installs": []}}, "filter.config"),
        ({"action": "revoke", "filter": {"group": "nowhere"}}, "filter.group"),
        ({"action": "revoke", "filter": {"seen_before": "long ago"}}, "filter.seen_before"),
        ({"action": "send_signal", "all": True, "params": {"type": "a\nb"}}, "params.type"),
    ],
)
async def test_malformed_request_names_its_field_and_changes_nothing(
    api: DeviceBulkApi, body: dict[str, Any], field: str
) -> None:
    response = await api.post(**body)
    assert response.status_code == 400, response.text
    assert response.json()["error"]["what"].startswith(field)
    assert api.fleet.query("SELECT COUNT(*) AS jobs FROM jobs")[0]["jobs"] == 0


def test_audit_rows_of_items_expire_and_others_stay(api: DeviceBulkApi, clock: ManualClock) -> None:
    database = api.database
    before = len(database.read_now(access_audit.list_page, None, None, PageRequest(500, 0)).items)
    database.write_now(access_audit.record_items, "ada", "device.revoke", 1, [{"device_id": 1}, {"device_id": 2}])
    clock.advance(100)
    assert database.write_now(access_audit.forget_items, 200) == 0
    assert database.write_now(access_audit.forget_items, 50) == 2
    assert len(database.read_now(access_audit.list_page, None, None, PageRequest(500, 0)).items) == before


async def test_jobs_of_two_operators_at_once_each_change_every_device(api: DeviceBulkApi) -> None:
    other = {**ITEM, "to": ["/etc/ssl/other.pem"]}
    bodies: list[dict[str, Any]] = [
        {"action": "put_config", "filter": {"tag": "kiosk"}, "params": {"installs": [item]}} for item in (ITEM, other)
    ]
    created = await asyncio.gather(*(api.post(**body) for body in bodies))
    runners = [JobRunner(api.database, JobActions(api.actions)) for _ in range(2)]
    await asyncio.gather(*map(run_until_idle, runners))
    await run_until_idle(runners[0])
    jobs_done = [api.job(each.json()["data"]["job_id"]) for each in created]
    assert [(job.state, job.done, job.failed, job.skipped) for job in jobs_done] == [("done", 3, 0, 0)] * 2
    for device in (api.devices[0], api.devices[1], api.devices[3]):
        version, items, _ = api.config(device)
        assert version == 2
        assert items[0]["to"] in (ITEM["to"], other["to"])
