"""The pages of rollouts: created from a dry run, waves and laggards, and every change by name."""

import pytest

from restante.console.views.bulk.rollouts import parse_waves, wave_text
from restante.core.errors import BadInput
from restante.jobs.rollouts import rollouts
from restante.updates.install import install_configs
from tests.console.console_server import ConsoleServer, eventually, start_rollout


def test_rollout_begins_with_its_first_wave_and_names_who_lags_behind(server: ConsoleServer) -> None:
    devices = [server.add_device(f"wave-{place}") for place in range(4)]
    with server.client("fleet") as fleet:
        path = start_rollout(fleet, "wave-", "2, 100%")
        rollout_id = path.rpartition("/")[2]
        eventually(lambda: f'href="/console/devices/{devices[1]}"' in fleet.get(path).text)
        page = fleet.get(path).text
        assert "1: 2 more" in page
        assert "2: 100 % of all" in page
        assert f'href="/console/devices/{devices[2]}"' not in page
        assert server.database.read_now(install_configs.current, devices[0]).updated_by == "fleet@example.com"
        assert path in fleet.get("/console/rollouts?state=running").text
        assert fleet.get(f"/console/search?q={rollout_id}").headers["location"] == path


def test_rollout_is_paused_changed_resumed_advanced_and_aborted(server: ConsoleServer) -> None:
    devices = [server.add_device(f"step-{place}") for place in range(3)]
    with server.client("fleet") as fleet:
        path = start_rollout(fleet, "step-", "1, 100%")
        rollout_id = path.rpartition("/")[2]
        eventually(lambda: f'href="/console/devices/{devices[0]}"' in fleet.get(path).text)
        assert fleet.post(f"{path}/pause").status_code == 303
        eventually(lambda: "Rollouts are paused" in fleet.get("/console").text)
        thresholds = {"name": "renamed", "success_percent": "90", "error_percent": "7"}
        times = {"min_wave_seconds": "0", "max_wave_seconds": "0"}
        assert fleet.post(f"{path}/thresholds", **thresholds, **times).status_code == 303
        assert "<h1>renamed</h1>" in fleet.get(path).text
        assert fleet.post(f"{path}/thresholds", **thresholds | {"error_percent": "200"}, **times).status_code == 400
        assert fleet.post(f"{path}/resume").status_code == 303
        # The device is shown a moment before the wave is handed out; until then this is refused.
        eventually(lambda: fleet.post(f"{path}/advance").status_code == 303)
        eventually(lambda: f'href="/console/devices/{devices[2]}"' in fleet.get(path).text)
        assert fleet.post(f"{path}/abort").status_code == 303
        assert "aborted" in fleet.get(path).text
        assert fleet.post(f"{path}/pause").status_code == 409
    row = server.database.read_now(rollouts.find, rollout_id)
    assert (row["state"], row["error_percent"]) == ("aborted", 7)


def test_rollout_does_not_exist_for_people_outside_its_scope(server: ConsoleServer) -> None:
    server.add_device("hidden-wave")
    with server.client("fleet") as fleet, server.client("bank") as bank:
        path = start_rollout(fleet, "hidden-wave", "100%")
        assert bank.get(path).status_code == 404
        assert bank.post(f"{path}/abort").status_code == 404
        assert path not in bank.get("/console/rollouts").text


def test_waves_are_written_as_people_write_them() -> None:
    waves = parse_waves("1%, 12.5 %, 50, pilot devices")
    assert [wave_text(wave) for wave in waves] == ["1 % of all", "12.5 % of all", "50 more", "group pilot devices"]


@pytest.mark.parametrize("text", ["", " , ", "0%", "101%", "0", "-3", "10 %%", "9" * 30])
def test_wrong_waves_are_refused(text: str) -> None:
    with pytest.raises(BadInput, match="waves"):
        parse_waves(text)
