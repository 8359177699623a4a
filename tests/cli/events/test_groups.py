from tests.cli.conftest import Restante


def test_groups_are_registered(restante: Restante) -> None:
    result = restante("events", "clients", "list")
    assert result.exit_code == 0, result.output
