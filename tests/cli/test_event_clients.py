import json
from pathlib import Path

from restante.events import event_audit
from restante.web.paging import Window
from tests.cli.conftest import Restante
from tests.events.keys import jwks
from tests.pki import TPP_DN

ADD = ("events", "clients", "add")


def add(restante: Restante, *args: str) -> dict[str, str]:
    """What is told of a new client; stderr says how it will reach the server."""
    result = restante(*ADD, *args, "--json")
    assert result.exit_code == 0, result.output
    assert "DEVELOPMENT MODE" in result.stderr
    made: dict[str, str] = json.loads(result.stdout)
    return made


def test_a_clients_life(restante: Restante) -> None:
    assert restante.ok("events", "clients", "list") == "No clients.\n"
    made = add(restante, "a bank app", "--method", "client_secret_basic", "--client-id", "tpp")
    assert made["client_secret"].startswith("cs_")
    listed = restante.ok("events", "clients", "list")
    assert "a bank app" in listed
    assert made["client_secret"] not in listed
    shown = restante.ok("events", "clients", "show", "tpp")
    assert "client_secret_basic" in shown
    assert "active" in shown
    rotated = restante.json("events", "clients", "rotate", "tpp")
    assert rotated["client_secret"] != made["client_secret"]
    assert restante.json("events", "clients", "suspend", "tpp")["status"] == "suspended"
    assert restante.json("events", "clients", "resume", "tpp")["status"] == "active"
    assert restante.json("events", "clients", "list")["items"][0]["client_id"] == "tpp"
    with restante.database() as database:
        done = database.read_now(event_audit.list_page, "tpp", Window(10, 0)).items
    assert len(done) == 4
    assert all(each.actor.startswith("cli:") for each in done)


def test_keys_and_subjects(restante: Restante, tmp_path: Path) -> None:
    keys = tmp_path / "keys.json"
    keys.write_text(json.dumps(jwks("ec-1")))
    add(restante, "a", "--method", "private_key_jwt", "--client-id", "by-key", "--jwks", str(keys), "--alg", "ES256")
    add(restante, "b", "--method", "tls_client_auth", "--client-id", "by-tls", "--subject-dn", TPP_DN)
    assert restante.json("events", "clients", "show", "by-key")["kids"] == ["ec-1"]
    assert restante.json("events", "clients", "show", "by-tls")["tls_client_auth_subject_dn"] == TPP_DN
    given = restante("events", "clients", "rotate", "by-key", "--jwks", "-", stdin=json.dumps(jwks("ed-1")))
    assert given.stdout == "Client by-key.\n"
    assert restante.json("events", "clients", "show", "by-key")["kids"] == ["ed-1"]


def test_a_secret_is_shown_once(restante: Restante) -> None:
    result = restante(*ADD, "a", "--method", "client_secret_basic", "--client-id", "tpp")
    assert "Shown this once" in result.stdout
    assert "cs_" in result.stdout


def test_what_is_wrong_is_said(restante: Restante, tmp_path: Path) -> None:
    (tmp_path / "nonsense").write_text("{")
    wrong = str(tmp_path / "nonsense")
    assert restante.complaint(*ADD, "a", "--method", "private_key_jwt", "--jwks", wrong).startswith("--jwks: expected")
    assert restante.complaint(*ADD, "a", "--method", "private_key_jwt").startswith("jwks.keys: expected")
    assert restante.complaint("events", "clients", "show", "nobody") == "there is no such client"
    assert restante.complaint("events", "clients", "rotate", "nobody") == "there is no such client"
    assert restante(*ADD, "a", "--method", "other").exit_code == 2
    assert restante(*ADD, "a", "--method", "private_key_jwt", "--alg", "HS256").exit_code == 2
