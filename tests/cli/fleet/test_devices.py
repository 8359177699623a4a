import json
from pathlib import Path

from cryptography import x509

from tests.cli.conftest import OWNER, AddDevice, Restante

CONFIG = {"installs": [{"id": "a", "type": "copy", "from": ["/a"], "to": ["/b"]}]}


def test_device_is_listed_shown_and_revoked(remote: Restante, add_device: AddDevice) -> None:
    number = str(add_device("kiosk"))
    assert remote.json("device", "show", number)["name"] == "kiosk"
    assert "kiosk" in [each["name"] for each in remote.items("device", "list")]
    assert "kiosk" in [each["name"] for each in remote.items("device", "list", "--user", OWNER)]
    assert "This revokes device" in remote.error_line("device", "revoke", number)
    assert remote.json("device", "revoke", number, "--yes")["status"] == "revoked"
    assert "no such device" in remote.error_line("device", "show", "999999")
    assert remote.error_line("device", "show", "many") == "there is no device 'many'"


def test_signal_goes_to_the_outbox(remote: Restante, add_device: AddDevice) -> None:
    number = str(add_device("signalled"))
    assert remote.json("signal", "send", number, "app.hello", "--ref", '{"a": 1}')["type"] == "app.hello"
    (row,) = remote.items("outbox", "list", "--device", number, "--status", "pending", "--since", "1h")
    shown = remote.json("outbox", "show", str(row["id"]))
    assert shown["event_kind"] == "app.hello"
    assert remote.json("outbox", "retry", "--all") == {"retried": 0}
    assert remote("outbox", "retry").exit_code == 2
    assert remote.items("outbox", "sources")[0]["source"] == "server"
    assert remote.error_line("signal", "send", number, "app.hello", "--ref", "[]").startswith("--ref: expected")


def test_config_is_replaced_listed_and_restored(remote: Restante, add_device: AddDevice, tmp_path: Path) -> None:
    number, file = str(add_device("configured")), tmp_path / "config.json"
    for note in ("first", "second"):
        file.write_text(json.dumps(CONFIG if note == "first" else {**CONFIG, "after_update_script": "true"}))
        remote.ok("config", "update", number, str(file), "--note", note)
    versions = remote.items("config", "list", number)
    assert [each["change_note"] for each in versions] == ["first", "second"]
    oldest = str(versions[0]["version"])
    assert remote.json("config", "show", number, "--version", oldest)["change_note"] == "first"
    remote.ok("config", "restore", number, oldest)
    assert remote.json("config", "show", number)["after_update_script"] is None
    file.write_text('{"install": []}')
    assert remote.error_line("config", "update", number, str(file)).startswith("FILE: expected")


def test_poll_boost_starts_and_stops(remote: Restante) -> None:
    assert remote.json("poll-boost", "start", "--for", "30m", "--interval", "7")["interval_seconds"] == 7
    assert remote.json("poll-boost", "show")["active"] is True
    assert remote.json("poll-boost", "stop") == {"active": False}
    assert remote.error_line("poll-boost", "start", "--for", "long").startswith("--for: expected")


def test_schema_needs_no_server() -> None:
    from typer.testing import CliRunner

    from restante.cli.main import app

    printed = CliRunner().invoke(app, ["outbox", "schema", "--for", "mysql"])
    assert (printed.exit_code, "CREATE TABLE" in printed.stdout) == (0, True)


def test_certificates_are_made_from_an_own_authority_and_assigned(remote: Restante, add_device: AddDevice) -> None:
    number = str(add_device("certified"))
    user = ("--user", OWNER)
    ca = str(remote.json("ca", "create", "Root", "--valid-for", "30d", *user)["id"])
    account = remote.json("account", "create", "own", "--ca", "Root", "--email", "a@example.com", *user)["id"]
    certificate = str(remote.json("certificate", "create", "a.example.com", "--account", "own", *user)["id"])
    remote.ok("ca", "assign", ca, number)
    remote.ok("certificate", "assign", certificate, number)
    assert remote.items("certificate", "list", "--device", number)[0]["cert_id"] == int(certificate)
    assert remote.items("ca", "list", "--device", number)[0]["ca_id"] == int(ca)
    assert remote.json("certificate", "renew", certificate, "--valid-for", "7d", *user)["id"] == int(certificate)
    remote.ok("certificate", "unassign", certificate, number, "--yes")
    [ending] = remote.items("certificate", "expiring", "8d", "--renewal", "on")
    assert (ending["certificate_id"], ending["renewal_error"]) == (int(certificate), None)
    assert remote.json("certificate", "update", certificate, "--no-auto-renew", *user)["auto_renew"] is False
    assert [each["renews_at"] for each in remote.items("certificate", "expiring", "--renewal", "off")] == [None]
    assert remote.items("certificate", "expiring", "1d") == []
    assert [each["name"] for each in remote.items("ca", "expiring", "9999d")] == ["Root"]
    assert "TIME" in remote.ok("certificate", "expiring", "--help")
    assert "7d or 2w" in remote.error_line("certificate", "expiring", "soon")
    assert "revokes certificate" in remote("certificate", "delete", certificate, *user).output
    remote.ok("certificate", "delete", certificate, "--yes", "--reason", "superseded", *user)
    assert remote.items("certificate", "expiring", "8d") == []
    remote.ok("account", "delete", str(account), "--yes", *user)
    remote.ok("ca", "unassign", ca, number, "--yes")
    remote.ok("ca", "delete", ca, "--yes", *user)
    assert "because you are not signed in as a person" in remote.error_line("ca", "list")


SUBJECT = {
    "organization": "Shop",
    "organizational_unit": "Tills",
    "country": "DE",
    "state": "Bavaria",
    "locality": "Ulm",
}
SUBJECT_FLAGS = [text for name, value in SUBJECT.items() for text in (f"--{name.replace('_', '-')}", value)]


def test_authority_gets_what_its_options_say(remote: Restante, add_device: AddDevice) -> None:
    add_device("for an owner")
    user = ("--user", OWNER)
    options = ("--common-name", "Root of the shop", "--algorithm", "RSA", "--key-size", "2048", "--path-length", "1")
    usage = ("--key-usage", "keyCertSign,cRLSign")
    made = remote.json("ca", "create", "Shop", *options, *usage, "--valid-for", "2w", *SUBJECT_FLAGS, *user)
    assert (made["name"], made["algorithm"], made["key_size"], made["valid_days"]) == ("Shop", "RSA", 2048, 14)
    assert made["key_usage"] == "keyCertSign,cRLSign"
    certificate = x509.load_pem_x509_certificate(made["ca_certificate_pem"].encode())
    subject = "CN=Root of the shop,OU=Tills,O=Shop,L=Ulm,ST=Bavaria,C=DE"
    assert set(certificate.subject.rfc4514_string().split(",")) == set(subject.split(","))
    assert certificate.extensions.get_extension_for_class(x509.BasicConstraints).value.path_length == 1
    curved = remote.json("ca", "create", "Curved", "--curve", "p-384", *user)
    assert (curved["algorithm"], curved["curve_name"]) == ("ECDSA", "P-384")
    refused = remote.error_line("ca", "create", "Odd", "--algorithm", "RSA", "--curve", "P-256", *user)
    assert refused == "--curve: expected none with RSA"
    assert remote.error_line("ca", "create", "Odd", "--valid-for", "36h", *user).startswith(
        "--valid-for: expected whole"
    )
    assert remote.error_line("ca", "create", "Odd", "--country", "Germany", *user).startswith("--country: ")


def test_certificate_gets_what_its_options_say(remote: Restante, add_device: AddDevice) -> None:
    add_device("for an owner")
    user = ("--user", OWNER)
    remote.ok("ca", "create", "Issuer", *user)
    remote.ok("account", "create", "issued", "--ca", "Issuer", "--email", "a@example.com", *user)
    names = ("--san", "www.example.com", "--san", "10.0.0.1")
    made = remote.json("certificate", "create", "b.example.com", "--account", "issued", *names, *SUBJECT_FLAGS, *user)
    shown = remote.json("certificate", "show", str(made["id"]), *user)
    assert set(shown["sans"]) >= {"www.example.com", "10.0.0.1"}
    assert {name: shown[name] for name in SUBJECT} == SUBJECT
    assert "no account 'absent'" in remote.error_line(
        "certificate", "create", "c.example", "--account", "absent", *user
    )
    assert "--account" in remote("certificate", "create", "c.example", *user).stderr
    assert remote.error_line("certificate", "create", "not a name", "--account", "issued", *user).startswith("DOMAIN: ")
