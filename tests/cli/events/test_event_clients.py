import asyncio
import json
from pathlib import Path

from restante.database.paging import PageRequest
from restante.events.clients.oauth_errors import InvalidClient
from restante.events.clients.refusals import Refusals
from restante.events.publishing import event_audit
from restante.server.data_folder import DataFolder
from tests.cli.conftest import Restante
from tests.events.client_keys import jwks
from tests.pki import TPP_DN

ADD = ("events", "clients", "add")


def add(restante: Restante, *args: str) -> dict[str, str]:
    """The JSON of a new client. A warning on stderr names the development mode."""
    result = restante(*ADD, *args, "--json")
    assert result.exit_code == 0, result.output
    assert "DEVELOPMENT MODE" in result.stderr
    made: dict[str, str] = json.loads(result.stdout)
    return made


def test_client_is_added_rotated_suspended_and_resumed(restante: Restante) -> None:
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
        done = database.read_now(event_audit.list_page, "tpp", PageRequest(10, 0)).items
    assert len(done) == 4
    assert all(each.actor.startswith("cli:") for each in done)


def test_why_shows_the_last_refusals(restante: Restante) -> None:
    add(restante, "a bank app", "--method", "client_secret_basic", "--client-id", "tpp")
    assert restante.ok("events", "clients", "why", "tpp") == "tpp was never refused.\n"
    with restante.database() as database:
        refusals = Refusals(database)
        refusals.record("tpp", InvalidClient(reason="secret"), "192.0.2.7")
        asyncio.run(refusals.write())
    shown = restante.ok("events", "clients", "why", "tpp")
    assert "the secret is wrong" in shown
    assert "192.0.2.7" in shown
    assert restante.json("events", "clients", "why", "tpp")[0]["count"] == 1
    assert "no such client" in restante.error_line("events", "clients", "why", "nobody")


def test_keys_and_subjects_are_stored_and_replaced(restante: Restante, tmp_path: Path) -> None:
    keys = tmp_path / "keys.json"
    keys.write_text(json.dumps(jwks("ec-1")))
    add(restante, "a", "--method", "private_key_jwt", "--client-id", "by-key", "--jwks", str(keys), "--alg", "ES256")
    add(restante, "b", "--method", "tls_client_auth", "--client-id", "by-tls", "--subject-dn", TPP_DN)
    assert restante.json("events", "clients", "show", "by-key")["kids"] == ["ec-1"]
    assert restante.json("events", "clients", "show", "by-tls")["tls_client_auth_subject_dn"] == TPP_DN
    given = restante("events", "clients", "rotate", "by-key", "--jwks", "-", stdin=json.dumps(jwks("ed-1")))
    assert given.stdout == "Client by-key.\n"
    assert restante.json("events", "clients", "show", "by-key")["kids"] == ["ed-1"]


def test_add_shows_secret_once(restante: Restante) -> None:
    result = restante(*ADD, "a", "--method", "client_secret_basic", "--client-id", "tpp")
    assert "Shown this once" in result.stdout
    assert "cs_" in result.stdout


def test_invalid_arguments_are_refused(restante: Restante, tmp_path: Path) -> None:
    (tmp_path / "nonsense").write_text("{")
    wrong = str(tmp_path / "nonsense")
    assert restante.error_line(*ADD, "a", "--method", "private_key_jwt", "--jwks", wrong).startswith("--jwks: expected")
    assert restante.error_line(*ADD, "a", "--method", "private_key_jwt").startswith("jwks.keys: expected")
    assert restante.error_line("events", "clients", "show", "nobody") == "there is no such client"
    assert restante.error_line("events", "clients", "rotate", "nobody") == "there is no such client"
    assert restante(*ADD, "a", "--method", "other").exit_code == 2
    assert restante(*ADD, "a", "--method", "private_key_jwt", "--alg", "HS256").exit_code == 2


def test_added_client_has_published_keys_before_a_server_starts(restante: Restante) -> None:
    assert restante.json("events", "keys", "list")["items"] == []
    add(restante, "a", "--method", "client_secret_basic", "--alg", "ES256", "--scope", "eventpolling ssf.read")
    before = restante.json("events", "keys", "list")["items"]
    assert {key["alg"]: key["status"] for key in before} == {"ES256": "signing", "RS256": "signing"}
    add(restante, "b", "--method", "client_secret_basic", "--alg", "ES256")
    assert restante.json("events", "keys", "list")["items"] == before


def test_client_is_added_without_the_master_key_too(restante: Restante) -> None:
    add(restante, "a", "--method", "client_secret_basic", "--alg", "ES256")
    DataFolder(restante.data).master_key_path.unlink()
    added = restante(*ADD, "b", "--method", "client_secret_basic", "--alg", "EdDSA", "--json")
    assert added.exit_code == 0
    assert "The signing key for EdDSA is made when a server starts" in added.stderr
