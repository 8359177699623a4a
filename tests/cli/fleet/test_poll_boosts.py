from tests.cli.conftest import Restante


def test_poll_boost_is_started_shown_and_stopped(restante: Restante) -> None:
    assert restante.json("poll-boost", "show") == {"active": False}
    started = restante.json("poll-boost", "start", "--minutes", "60", "--interval", "10")
    assert (started["active"], started["interval_seconds"]) == (True, 10)
    assert restante.json("poll-boost", "show") == started
    assert "devices poll every 10 s" in restante.ok("poll-boost", "show")
    assert restante.ok("poll-boost", "stop") == "No poll boost is on.\n"
    assert restante.json("poll-boost", "show") == {"active": False}


def test_interval_out_of_range_is_wrong_usage(restante: Restante) -> None:
    assert restante("poll-boost", "start", "--minutes", "0").exit_code == 2
    assert restante("poll-boost", "start", "--minutes", "5", "--interval", "3601").exit_code == 2
