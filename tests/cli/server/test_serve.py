from pathlib import Path

import pytest

from restante.cli.server.serve import started_as, startup_message
from restante.server.config.setting_types import Address
from restante.server.config.settings import Settings
from restante.server.config.url_setting_types import DatabaseAddress
from restante.server.data_folder import DataFolder
from tests.cli.conftest import Restante


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_message_names_address_and_data(tmp_path: Path) -> None:
    settings = Settings(data=Path("kept"), listen=Address("::1", 80))
    message = startup_message(settings, has_users=True, started_as="restante")
    assert "http://[::1]:80" in message
    assert str(tmp_path / "kept") in message
    assert "user add" not in message


def test_first_start_prints_command_for_first_user() -> None:
    message = startup_message(Settings(), has_users=False, started_as=".venv/bin/restante")
    assert message.endswith("    .venv/bin/restante user create you@example.com --role admin")


def test_command_names_folder_that_is_not_default() -> None:
    settings = Settings(data=Path("my data"))
    assert startup_message(settings, has_users=False, started_as="restante").endswith(
        "    restante user create you@example.com --role admin --data 'my data'"
    )


def test_command_names_database_without_password() -> None:
    settings = Settings(database=DatabaseAddress("postgresql://me:opensesame@db/restante"))
    message = startup_message(settings, has_users=False, started_as="restante")
    assert message.endswith("    restante user create you@example.com --role admin")
    assert "opensesame" not in message


def test_program_is_named_as_it_can_be_called_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / ".venv" / "bin" / "restante"
    program.parent.mkdir(parents=True)
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", "/nowhere")
    assert started_as(str(program)) == ".venv/bin/restante"
    assert started_as("/somewhere else/restante") == "'/somewhere else/restante'"
    assert started_as("/lib/pytest/__main__.py") == "restante"
    monkeypatch.setenv("PATH", str(program.parent))
    assert started_as(str(program)) == "restante"


def test_invalid_settings_are_refused_before_anything_is_created(restante: Restante) -> None:
    message = restante.error_line("serve", "--listen", "8080")
    assert message.startswith("listen: expected HOST:PORT")
    assert message.endswith("(from --listen)")
    assert not restante.data.exists()


def test_second_server_on_folder_is_refused(restante: Restante) -> None:
    with DataFolder(restante.data).lock():
        assert "a server already runs on" in restante.error_line("serve", "--listen", "127.0.0.1:0")
