from restante.identity.callers import Role


def test_each_role_may_do_what_those_before_it_may() -> None:
    assert Role.viewer < Role.operator < Role.approver < Role.admin
