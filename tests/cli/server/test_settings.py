from pathlib import Path

import pytest

from restante.cli.server.settings import as_markdown
from restante.server.config.settings import DECLARATIONS
from tests.cli.conftest import Restante

PAGE = Path(__file__).parents[3] / "docs" / "settings.md"


def test_lists_every_setting_with_value_origin_and_meaning(restante: Restante, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RESTANTE_POLL_BURST", "50")
    monkeypatch.setenv("RESTANTE_LISTEN", "[::1]:80")
    listed = {each["name"]: each for each in restante.items("settings")}
    assert list(listed) == list(DECLARATIONS)
    assert listed["poll_burst"] == {
        "name": "poll_burst",
        "value": 50,
        "origin": "RESTANTE_POLL_BURST",
        "meaning": DECLARATIONS["poll_burst"].meaning,
    }
    assert listed["listen"]["value"] == "[::1]:80"
    assert (listed["data"]["value"], listed["data"]["origin"]) == (str(restante.data), "--data")
    assert (listed["public_url"]["value"], listed["public_url"]["origin"]) == (None, "default")
    table = restante.ok("settings")
    assert all(name in table for name in DECLARATIONS)


def test_secrets_are_masked(restante: Restante, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RESTANTE_MASTER_KEY", "ab" * 32)
    assert "abab" not in restante.ok("settings")
    listed = {each["name"]: each for each in restante.items("settings")}
    assert listed["master_key"]["value"] == "(hidden)"


def test_named_file_is_read(restante: Restante, tmp_path: Path) -> None:
    text = 'poll_burst = 9\n[[issuers]]\nissuer = "https://a.example"\njwks = "a.json"\nalgorithms = ["ES256"]\n'
    (tmp_path / "a.toml").write_text(text)
    listed = {each["name"]: each for each in restante.items("settings", "--config", "a.toml")}
    assert (listed["poll_burst"]["value"], listed["poll_burst"]["origin"]) == (9, "a.toml")
    assert listed["issuers"]["value"][0]["issuer"] == "https://a.example"
    assert "https://a.example" in restante.ok("settings", "--config", "a.toml")


def test_settings_command_creates_nothing(restante: Restante) -> None:
    restante.ok("settings")
    assert not restante.data.exists()


def test_docs_page_is_up_to_date(restante: Restante) -> None:
    assert restante.ok("settings", "--markdown") == as_markdown()
    assert PAGE.read_text(encoding="utf-8") == as_markdown(), (
        "docs/settings.md is out of date: restante settings --markdown > docs/settings.md"
    )


def test_docs_page_has_every_setting() -> None:
    for name, declaration in DECLARATIONS.items():
        assert f"| `{name}` |" in as_markdown()
        assert declaration.meaning in as_markdown()
