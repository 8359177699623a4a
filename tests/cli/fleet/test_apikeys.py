from restante.identity import api_keys
from restante.identity.callers import Role
from tests.cli.conftest import Restante


def test_create_prints_key_once(restante: Restante) -> None:
    made = restante.json("apikey", "create", "deployer", "--role", "operator")
    assert set(made) == {"id", "key"}
    with restante.database() as database:
        holder = database.read_now(api_keys.find, made["key"])
    assert holder is not None
    assert (holder.key_id, holder.name, holder.role) == (made["id"], "deployer", Role.operator)
    assert made["key"] not in restante.ok("apikey", "list")
    assert "rk_" in restante.ok("apikey", "create", "another", "--role", "viewer")


def test_revoked_key_is_refused(restante: Restante) -> None:
    made = restante.json("apikey", "create", "deployer", "--role", "operator")
    assert restante.json("apikey", "revoke", str(made["id"])) == {"id": made["id"], "revoked": True}
    with restante.database() as database:
        assert database.read_now(api_keys.find, made["key"]) is None
    (listed,) = restante.json("apikey", "list")
    assert listed["revoked_at"] is not None


def test_unknown_key_is_refused(restante: Restante) -> None:
    assert restante.error_line("apikey", "revoke", "7") == "there is no such API key"
    assert restante("apikey", "revoke", "seven").exit_code == 2


def test_invalid_name_is_refused(restante: Restante) -> None:
    assert restante.error_line("apikey", "create", "", "--role", "viewer").startswith("name: expected")


def test_list_shows_keys_without_secrets(restante: Restante) -> None:
    assert restante.ok("apikey", "list") == "There is no API key yet.\n"
    restante.ok("apikey", "create", "deployer", "--role", "operator")
    (listed,) = restante.json("apikey", "list")
    assert set(listed) == {"id", "name", "role", "created_at", "revoked_at", "user_id", "expires_at"} | {
        "grants",
        "suspended_at",
    }
    assert "deployer" in restante.ok("apikey", "list")


def test_key_has_grants_and_is_suspended(restante: Restante) -> None:
    created = restante.json("apikey", "create", "deployer", "--grant", "operator@events:shop")
    key_id = str(created["id"])
    assert restante.json("apikey", "list")[0]["grants"] == ["operator@events:shop"]
    changed = restante.json("apikey", "grants", key_id, "--grant", "viewer@commands")
    assert (changed["role"], changed["grants"]) == ("viewer", ["viewer@commands"])
    assert restante.json("apikey", "suspend", key_id)["suspended_at"] is not None
    assert restante.ok("apikey", "resume", key_id) == f"API key {key_id} is accepted again.\n"
    restante.ok("apikey", "revoke", key_id)
    events = [change["event"] for change in restante.json("user", "audit")["items"]]
    assert events == ["key.revoked", "key.resumed", "key.suspended", "key.grants_changed", "key.created"]
    assert created["key"] not in restante.ok("user", "audit")
    assert restante.error_line("apikey", "suspend", "99") == "there is no such API key"
