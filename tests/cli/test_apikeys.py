from restante.identity import api_keys
from restante.identity.callers import Role
from tests.cli.conftest import Restante


def test_create_prints_the_key_this_once(restante: Restante) -> None:
    made = restante.json("apikey", "create", "deployer", "--role", "operator")
    assert set(made) == {"id", "key"}
    with restante.database() as database:
        holder = database.read_now(api_keys.find, made["key"])
    assert holder is not None
    assert (holder.key_id, holder.name, holder.role) == (made["id"], "deployer", Role.operator)
    assert made["key"] not in restante.ok("apikey", "list")
    assert "rk_" in restante.ok("apikey", "create", "another", "--role", "viewer")


def test_revoke_ends_it(restante: Restante) -> None:
    made = restante.json("apikey", "create", "deployer", "--role", "operator")
    assert restante.json("apikey", "revoke", str(made["id"])) == {"id": made["id"], "revoked": True}
    with restante.database() as database:
        assert database.read_now(api_keys.find, made["key"]) is None
    (listed,) = restante.json("apikey", "list")
    assert listed["revoked_at"] is not None


def test_a_key_that_is_not_there_cannot_be_revoked(restante: Restante) -> None:
    assert restante.complaint("apikey", "revoke", "7") == "there is no such API key"
    assert restante("apikey", "revoke", "seven").exit_code == 2


def test_a_name_is_checked(restante: Restante) -> None:
    assert restante.complaint("apikey", "create", "", "--role", "viewer").startswith("name: expected")


def test_list(restante: Restante) -> None:
    assert restante.ok("apikey", "list") == "There is no API key yet.\n"
    restante.ok("apikey", "create", "deployer", "--role", "operator")
    (listed,) = restante.json("apikey", "list")
    assert set(listed) == {"id", "name", "role", "created_at", "revoked_at"}
    assert "deployer" in restante.ok("apikey", "list")
