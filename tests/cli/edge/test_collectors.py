from restante.identity.clients import collector_tokens
from tests.cli.conftest import Restante


def site_of(restante: Restante, token: str) -> int | None:
    with restante.database() as database:
        found = database.read_now(collector_tokens.find, token)
    return None if found is None else found.site_id


def test_collector_is_added_rotated_and_revoked(restante: Restante) -> None:
    restante.ok("site", "add", "North")
    assert restante.ok("collector", "list") == "No collectors.\n"
    made = restante.json("collector", "add", "1", "roof")
    assert site_of(restante, made["token"]) == 1
    rotated = restante.json("collector", "rotate", "1")
    assert site_of(restante, made["token"]) is None
    assert site_of(restante, rotated["token"]) == 1
    assert rotated["hmac_secret"] != made["hmac_secret"]
    listed = restante.ok("collector", "list", "--site", "1")
    assert "roof" in listed
    assert rotated["token"] not in listed
    assert restante.ok("collector", "revoke", "1") == "Collector 1 is revoked.\n"
    assert restante.json("collector", "revoke", "1")["status"] == "revoked"
    assert site_of(restante, rotated["token"]) is None
    assert restante.error_line("collector", "rotate", "1") == "the collector is revoked"


def test_add_and_rotate_show_secrets_once(restante: Restante) -> None:
    restante.ok("site", "add", "North")
    shown = restante.ok("collector", "add", "1", "roof")
    assert "ed_" in shown
    assert "hmac_secret" in shown
    token_only = restante.ok("collector", "rotate", "1", "--what", "token")
    assert "hmac_secret" not in token_only
    secret_only = restante.json("collector", "rotate", "1", "--what", "hmac_secret", "--overlap", "0")
    assert (secret_only["token"], len(secret_only["hmac_secret"])) == (None, 64)


def test_invalid_arguments_are_refused(restante: Restante) -> None:
    restante.ok("site", "add", "North")
    assert restante.error_line("collector", "add", "9", "roof") == "site_id: expected the id of a site"
    assert restante.error_line("collector", "add", "1", "roof", "--zone", "9").startswith("zone_id: expected")
    assert restante.error_line("collector", "rotate", "9") == "there is no such collector"
    assert restante("collector", "rotate", "1", "--overlap", "-1").exit_code == 2
