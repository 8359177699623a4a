"""What a person reads after a mistake: plain words, with the names of flags and files."""

import json
import os
from pathlib import Path

import pytest
from typer.testing import CliRunner

from restante.cli.main import app
from tests.cli.conftest import OWNER, AddDevice, Restante

INSTALL = {"id": "a", "type": "copy", "from": ["/a"], "to": ["/b"]}


@pytest.fixture
def site(remote: Restante) -> str:
    name = f"site {os.urandom(4).hex()}"
    remote.ok("site", "create", name)
    return name


def usage_error(remote: Restante, *args: str) -> str:
    refused = remote(*args)
    assert refused.exit_code == 2
    return refused.stderr.splitlines()[-1]


def test_fields_within_a_refusal_are_named_as_flags(remote: Restante, site: str) -> None:
    refused = remote.error_line("command", "create", site, "restart")
    assert refused == "--miner: expected exactly one of --miner, --target and --all-miners"


def test_wrong_number_in_params_is_refused_in_plain_words(remote: Restante, site: str) -> None:
    miner = str(remote.json("miner", "create", site, "m")["id"])
    refused = remote.error_line("command", "create", site, "set_fan", "--miner", miner, "--params", '{"speed": 900}')
    assert refused == "--params.speed: expected a whole number, at most 100"


@pytest.mark.parametrize(
    ("args", "flag"),
    [
        (("command", "list", "--limit", "x"), "--limit"),
        (("command", "create", "1", "restart", "--priority", "x"), "--priority"),
        (("bulk", "send-command", "restart", "--priority", "x"), "--priority"),
        (("event", "publish", "{}", "--toe", "x"), "--toe"),
    ],
)
def test_text_in_place_of_a_whole_number_is_refused(remote: Restante, args: tuple[str, ...], flag: str) -> None:
    assert usage_error(remote, *args).endswith(f"Invalid value for '{flag}': 'x' is not a whole number")


def test_text_in_place_of_a_number_is_refused(remote: Restante) -> None:
    rule = ("rule", "create", "x", "--site", "1", "--command", "restart", "--metric", "temp_max")
    for text in ("hot", "nan", "inf"):
        assert usage_error(remote, *rule, "--above", text).endswith(f"'--above': {text!r} is not a number")


def test_length_of_time_that_is_too_long_is_refused(remote: Restante, site: str) -> None:
    refused = remote.error_line("command", "create", site, "restart", "--ttl", "999999999w")
    assert refused.startswith("--ttl: expected a number of seconds, or a length of time such as")


def test_missing_file_is_named_without_an_error_number(remote: Restante, add_device: AddDevice) -> None:
    add_device("filed")
    assert remote.error_line("config", "update", "filed", "absent.json") == "absent.json: No such file or directory"


def test_file_that_is_not_json_is_refused_as_a_file(remote: Restante, add_device: AddDevice, tmp_path: Path) -> None:
    add_device("malformed")
    (tmp_path / "bad.json").write_text("{oops")
    refused = remote.error_line("config", "update", "malformed", str(tmp_path / "bad.json"))
    assert refused.startswith("FILE: expected a JSON object in ")
    assert "@FILE" not in refused


def test_id_that_is_not_a_uuid_is_refused(remote: Restante, add_device: AddDevice, tmp_path: Path) -> None:
    add_device("for an owner")
    key = tmp_path / "key"
    key.write_text("A" * 43 + "=")
    refused = remote.error_line("device", "create", "till-1", "--public-key", str(key), "--user", OWNER)
    assert refused == "UUID: expected a valid UUID"


def test_address_without_scheme_is_refused_by_login() -> None:
    refused = CliRunner().invoke(app, ["login", "127.0.0.1:1"])
    assert refused.stderr == "restante: URL: expected http://… or https://…, not '127.0.0.1:1'\n"


def test_client_without_its_credential_is_refused_with_the_options(remote: Restante) -> None:
    client = ("client", "create", "x", "--method")
    assert "give --jwks, --jwks-uri or --public-key" in remote(*client, "private_key_jwt").stderr
    assert "give --certificate or --subject-dn" in remote(*client, "tls_client_auth").stderr


def test_invitation_says_where_its_code_is_entered(remote: Restante) -> None:
    remote.ok("user", "create", "invited@example.com", "--role", "viewer", "--invited")
    assert "at /console/invitation of the server" in remote.ok("user", "invite", "invited@example.com")


def test_outbox_row_that_does_not_exist_is_named(remote: Restante) -> None:
    assert remote.error_line("outbox", "retry", "999999") == "there is no outbox row 999999"


def test_config_is_shown_once(remote: Restante, add_device: AddDevice, tmp_path: Path) -> None:
    add_device("shown")
    (tmp_path / "config.json").write_text(json.dumps({"installs": [INSTALL]}))
    remote.ok("config", "update", "shown", str(tmp_path / "config.json"))
    shown = remote.ok("config", "show", "shown")
    assert "installs\t" in shown
    assert "installs json" not in shown


def test_condition_of_a_rule_is_listed_as_it_was_given(remote: Restante, site: str) -> None:
    rule = ("rule", "create", "warm", "--site", site, "--metric", "temp_max", "--above", "90", "--command", "restart")
    remote.ok(*rule, "--for", "1m")
    assert "temp_max > 90 for 60 s" in remote.ok("rule", "list", "--site", site)


def test_new_certificate_says_how_it_is_issued(remote: Restante, add_device: AddDevice) -> None:
    add_device("for an owner")
    user = ("--user", OWNER)
    remote.ok("ca", "create", "Plain CA", *user)
    remote.ok("account", "create", "plain", "--ca", "Plain CA", "--email", "a@example.com", *user)
    made = remote.ok("certificate", "create", "plain.example", "--account", "plain", *user)
    assert "restante certificate renew" in made


def test_question_before_a_command_for_all_miners_has_their_number(remote: Restante, site: str) -> None:
    remote.ok("miner", "create", site, "one")
    remote.ok("miner", "create", site, "two")
    asked = remote.error_line("command", "create", site, "restart", "--all-miners")
    assert asked.startswith("This sends restart to all 2 miners of site ")
