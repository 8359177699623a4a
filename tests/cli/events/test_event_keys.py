from restante.events.signing import event_keys
from tests.cli.conftest import Restante


def test_keys_are_rotated_and_withdrawn(restante: Restante) -> None:
    assert "No keys yet" in restante.ok("events", "keys", "list")
    first = restante.json("events", "keys", "rotate", "--alg", "EdDSA")["kid"]
    second = restante.json("events", "keys", "rotate", "--alg", "EdDSA")["kid"]
    items = restante.json("events", "keys", "list")["items"]
    assert [(each["kid"], each["status"]) for each in items] == [(second, "coming"), (first, "signing")]
    assert "is withdrawn" in restante.ok("events", "keys", "withdraw", first)
    assert second in restante.ok("events", "keys", "list")
    with restante.database() as database:
        assert [key["kid"] for key in database.read_now(event_keys.published_jwks)] == [second]


def test_default_algorithm_comes_from_settings(restante: Restante) -> None:
    assert "is published, and signs from" in restante.ok("events", "keys", "rotate")
    [key] = restante.json("events", "keys", "list")["items"]
    assert (key["alg"], key["status"]) == ("PS256", "signing")


def test_unknown_key_is_refused(restante: Restante) -> None:
    assert "no event signing key" in restante.error_line("events", "keys", "withdraw", "unknown")
