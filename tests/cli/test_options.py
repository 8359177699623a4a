import pytest
import typer

from restante.cli.options import role_named
from restante.identity.callers import Role


def test_roles_are_parsed_by_name() -> None:
    assert [role_named(role.name) for role in Role] == list(Role)
    with pytest.raises(typer.BadParameter, match="viewer, operator, approver, admin"):
        role_named("Admin")
