from restante.identity.callers import Role


def test_roles_are_ordered_by_their_rights() -> None:
    assert Role.viewer < Role.operator < Role.approver < Role.admin
