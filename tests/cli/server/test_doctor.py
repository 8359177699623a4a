import pytest

from restante.server.data_folder import DataFolder
from tests.cli.conftest import Restante


def test_healthy_installation_has_no_problem(restante: Restante) -> None:
    restante.ok("init")
    findings = restante.items("doctor")
    assert {finding["subject"] for finding in findings} == {
        *("settings", "server", "disk", "data folder", "master key", "clock"),
        *("database", "journal", "schema", "signal times", "outbox", "events"),
    }
    assert "problem" not in {finding["state"] for finding in findings}
    table = restante.ok("doctor")
    assert all(finding["subject"] in table for finding in findings)


def test_problem_exits_with_1_and_names_remedy(restante: Restante) -> None:
    restante.ok("init")
    key = DataFolder(restante.data).master_key_path
    key.write_text("x")
    key.chmod(0o644)
    result = restante("doctor")
    assert result.exit_code == 1
    assert f"chmod 600 {key}" in result.stdout


def test_each_invalid_setting_is_a_problem(restante: Restante, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RESTANTE_POLL_BURST", "0")
    monkeypatch.setenv("RESTANTE_OUTBOX_BATCH", "0")
    result = restante("doctor", "--json")
    assert result.exit_code == 1
    assert result.stdout.count('"problem"') == 2


def test_doctor_creates_nothing(restante: Restante) -> None:
    restante.ok("doctor")
    assert not restante.data.exists()
