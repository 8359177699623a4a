"""The pages of jobs: a dry run, a job that is created once, its progress, and who may see and stop it."""

from restante.jobs import jobs
from restante.jobs.jobs import find
from restante.updates.devices import devices
from tests.console.console_server import RETRY_FIELDS as FIELDS
from tests.console.console_server import ConsoleServer, eventually, run_job
from tests.identity.people_and_devices import PASSWORD


def test_dry_run_counts_and_changes_nothing_then_the_job_runs_once(server: ConsoleServer) -> None:
    device_id = server.add_device("bulk")
    rows = [server.add_failed_row(device_id) for _ in range(3)]
    selected = {"filter.device_id": str(device_id)}
    with server.client("fleet") as fleet:
        shown = fleet.post("/console/jobs/new", **FIELDS, **selected, step="dry-run")
        assert shown.status_code == 200
        assert "retry would act on 3 outbox rows" in shown.text
        assert (
            f'href="/console/outbox/{rows[0]}"' in fleet.get(f"/console/outbox?device={device_id}&status=FAILED").text
        )
        path = run_job(fleet, **selected)
        job_id = path.rpartition("/")[2]
        server.live.wait_until(lambda: server.database.read_now(find, job_id)["state"] == "done")
        page = fleet.get(path).text
        assert "3 of 3" in page
        for row_id in rows:
            assert f'href="/console/outbox/{row_id}"' in page
        assert path in fleet.get("/console/jobs?state=done").text
        assert path not in fleet.get("/console/jobs?state=paused").text
        assert fleet.get(f"/console/search?q={job_id}").headers["location"] == path


def test_job_is_paused_resumed_and_aborted_by_name(server: ConsoleServer) -> None:
    device_id = server.add_device("slow")
    for _ in range(5):
        server.add_failed_row(device_id)
    with server.client("fleet") as fleet:
        path = run_job(fleet, **{"filter.device_id": str(device_id), "rate": "1"})
        assert fleet.post(f"{path}/pause").status_code == 303
        page = fleet.get(path).text
        assert "paused by fleet@example.com" in page
        eventually(lambda: "Jobs are paused" in fleet.get("/console").text)
        with server.client("bank") as bank:
            assert "Jobs are paused" not in bank.get("/console").text
        assert fleet.post(f"{path}/resume").status_code == 303
        assert fleet.post(f"{path}/abort").status_code == 303
        assert "aborted by fleet@example.com" in fleet.get(path).text
        assert fleet.post(f"{path}/pause").status_code == 409


def test_filter_is_required_unless_everything_is_meant(server: ConsoleServer) -> None:
    with server.client("fleet") as fleet:
        refused = fleet.post("/console/jobs/new", **FIELDS, step="dry-run")
        assert refused.status_code == 400
        assert "Filter: expected at least one field" in refused.text
        assert fleet.post("/console/jobs/new", **FIELDS, all="true", step="dry-run").status_code == 200
        wrong = fleet.post("/console/jobs/new", **FIELDS, **{"filter.device_id": "seven"}, step="dry-run")
        assert wrong.status_code == 400
        assert "device_id" in wrong.text
        assert fleet.post("/console/jobs/new", target="outbox", action="burn", step="dry-run").status_code == 400
        assert fleet.post("/console/jobs/new", target="moon", action="retry", step="dry-run").status_code == 404


def test_bulk_revocation_asks_for_the_password_again(server: ConsoleServer) -> None:
    device_id = server.add_device("bulk-revoked")
    fields = {"target": "devices", "action": "revoke", "filter.name": "bulk-revoked", "step": "run", "key": "k" * 20}
    with server.client("fleet") as fleet:
        page = fleet.get("/console/devices?name=bulk-revoked").text
        assert 'href="/console/jobs/new?target=devices&amp;filter.name=bulk-revoked"' in page
        server.outdate_password(fleet.session)
        assert "This cannot be undone" in fleet.post("/console/jobs/new", **fields).text
        done = fleet.post("/console/jobs/new", **fields, confirm_password=PASSWORD)
        job_id = done.headers["location"].partition("?")[0].rpartition("/")[2]
    server.live.wait_until(lambda: server.database.read_now(find, job_id)["state"] == "done")
    assert server.database.read_now(devices.get, device_id).status == "revoked"


def test_job_does_not_exist_for_people_outside_its_scope(server: ConsoleServer) -> None:
    device_id = server.add_device("private")
    server.add_failed_row(device_id)
    with server.client("fleet") as fleet, server.client("bank") as bank:
        path = run_job(fleet, **{"filter.device_id": str(device_id)})
        assert bank.get(path).status_code == 404
        assert bank.post(f"{path}/abort").status_code == 404
        assert path not in bank.get("/console/jobs").text
        assert bank.post("/console/jobs/new", **FIELDS, all="true", step="dry-run").status_code == 404
        assert server.database.read_now(jobs.find, path.rpartition("/")[2])["state"] != "aborted"
