from restante.events import event_keys
from tests.cli.conftest import Restante


def test_a_keys_life(restante: Restante) -> None:
    assert "No keys yet" in restante.ok("events", "keys", "list")
    first = restante.json("events", "keys", "rotate", "--alg", "EdDSA")["kid"]
    second = restante.json("events", "keys", "rotate", "--alg", "EdDSA")["kid"]
    items = restante.json("events", "keys", "list")["items"]
    assert [(each["kid"], each["status"]) for each in items] == [(second, "coming"), (first, "signing")]
    assert "is withdrawn" in restante.ok("events", "keys", "withdraw", first)
    assert second in restante.ok("events", "keys", "list")
    with restante.database() as database:
        assert [key["kid"] for key in database.read_now(event_keys.published)] == [second]


def test_without_a_wish_the_settings_say_which(restante: Restante) -> None:
    assert "is published, and signs from" in restante.ok("events", "keys", "rotate")
    [key] = restante.json("events", "keys", "list")["items"]
    assert (key["alg"], key["status"]) == ("PS256", "signing")


def test_an_unknown_key(restante: Restante) -> None:
    assert "no event signing key" in restante.complaint("events", "keys", "withdraw", "unknown")
