from tests.cli.conftest import Restante


def test_rollout_is_started_shown_and_stopped(restante: Restante) -> None:
    assert restante.json("rollout", "show") == {"active": False}
    started = restante.json("rollout", "start", "--minutes", "60", "--interval", "10")
    assert (started["active"], started["interval_seconds"]) == (True, 10)
    assert restante.json("rollout", "show") == started
    assert "devices poll every 10 s" in restante.ok("rollout", "show")
    assert restante.ok("rollout", "stop") == "No rollout is on.\n"
    assert restante.json("rollout", "show") == {"active": False}


def test_interval_out_of_range_is_wrong_usage(restante: Restante) -> None:
    assert restante("rollout", "start", "--minutes", "0").exit_code == 2
    assert restante("rollout", "start", "--minutes", "5", "--interval", "3601").exit_code == 2
