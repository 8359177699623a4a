from pathlib import Path

import pytest

from restante.cli.serve import started_as, startup_message
from restante.server.data_folder import DataFolder
from restante.server.setting_kinds import Address, DatabaseAddress
from restante.server.settings import Settings
from tests.cli.conftest import Restante


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_the_message_tells_address_and_data(tmp_path: Path) -> None:
    settings = Settings(data=Path("kept"), listen=Address("::1", 80))
    message = startup_message(settings, has_users=True, started_as="restante")
    assert "http://[::1]:80" in message
    assert str(tmp_path / "kept") in message
    assert "user add" not in message


def test_the_first_start_tells_how_to_make_the_first_user() -> None:
    message = startup_message(Settings(), has_users=False, started_as=".venv/bin/restante")
    assert message.endswith("    .venv/bin/restante user add you@example.com --role admin")


def test_the_command_names_the_folder_where_it_is_not_the_default() -> None:
    settings = Settings(data=Path("my data"))
    assert startup_message(settings, has_users=False, started_as="restante").endswith(
        "    restante user add you@example.com --role admin --data 'my data'"
    )


def test_the_command_names_the_database_without_its_password() -> None:
    settings = Settings(database=DatabaseAddress("postgresql://me:opensesame@db/restante"))
    message = startup_message(settings, has_users=False, started_as="restante")
    assert message.endswith("    restante user add you@example.com --role admin --database URL")
    assert "opensesame" not in message


def test_the_program_is_named_as_it_can_be_called(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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


def test_wrong_settings_are_told_before_anything_is_made(restante: Restante) -> None:
    said = restante.complaint("serve", "--listen", "8080")
    assert said.startswith("listen: expected HOST:PORT")
    assert said.endswith("(from --listen)")
    assert not restante.data.exists()


def test_a_second_server_is_refused(restante: Restante) -> None:
    with DataFolder(restante.data).lock():
        assert "a server already runs on" in restante.complaint("serve", "--listen", "127.0.0.1:0")
