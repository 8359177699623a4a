import json

import pytest

from tests.cli.conftest import Restante

EVENT = json.dumps({"urn:example:closed": {}})


@pytest.fixture
def client(remote: Restante, request: pytest.FixtureRequest) -> str:
    name = request.node.name[:40].replace("_", "-")
    made = remote.json("client", "create", "Shop", "--method", "client_secret_basic", "--client-id", name)
    return str(made["client_id"])


def test_event_is_published_listed_and_shown_by_prefix(remote: Restante, client: str) -> None:
    to = ("--client", client, "--sub", "https://bank.example/accounts/1")
    (jti,) = remote.json("event", "publish", EVENT, *to)["jtis"]
    assert remote.json("event", "show", jti[:14])["jti"] == jti
    assert [each["jti"] for each in remote.items("event", "list", "--client", client, "--status", "unsigned")] == [jti]
    assert [each["client_id"] for each in remote.items("event", "status")].count(client) == 1
    assert remote.json("event", "errors", client)["unsigned"] == 1


def test_event_without_subject_names_the_flag(remote: Restante, client: str) -> None:
    assert remote.error_line("event", "publish", EVENT, "--client", client).startswith("--sub: ")
    assert remote.error_line("event", "publish", "no json", "--client", client).startswith("EVENTS: expected")


def test_dropping_asks_with_the_count(remote: Restante, client: str) -> None:
    assert "drops all 0 errored events" in remote.error_line("event", "drop", "--all-of", client)
    assert remote.json("event", "drop", "--all-of", client, "--yes") == {"count": 0}
    assert remote.json("event", "release", "--all-of", client) == {"count": 0}
    assert remote("event", "release").exit_code == 2


def test_signing_keys_are_rotated_and_withdrawn(remote: Restante) -> None:
    made = remote.json("event-key", "rotate", "--alg", "es256")["kid"]
    assert made in [key["kid"] for key in remote.items("event-key", "list")]
    assert "add --yes" in remote.error_line("event-key", "withdraw", "--", made)
    assert remote.json("event-key", "withdraw", "--yes", "--", made[:10])["kid"] == made


def test_streams_are_listed(remote: Restante) -> None:
    assert remote.items("stream", "list") == []
    assert "stream" in remote.error_line("stream", "update", "absent", "--status", "paused")
