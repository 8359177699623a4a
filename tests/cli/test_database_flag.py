import pytest
import typer
from typer.testing import CliRunner

from restante.cli.database_flag import add_database_flag, database_from_flag
from restante.cli.options import DataOption

URL = "postgresql://ada@/restante"


@pytest.fixture
def app() -> typer.Typer:
    app, group = typer.Typer(), typer.Typer()

    @app.command("show")
    def show(name: str, data: DataOption = None) -> None:
        typer.echo(f"{name} {database_from_flag()}")

    @group.command("show")
    def show_in_group(data: DataOption = None) -> None:
        typer.echo(f"{database_from_flag()}")

    @app.command("other")
    def other() -> None:
        typer.echo("other")

    app.add_typer(group, name="group")
    add_database_flag(app)
    return app


def output(app: typer.Typer, *words: str) -> str:
    return CliRunner().invoke(app, list(words)).output.strip()


def test_commands_with_data_get_the_flag(app: typer.Typer) -> None:
    assert output(app, "show", "a", "--database", URL) == f"a {URL}"
    assert output(app, "group", "show", "--database", URL) == URL
    assert output(app, "show", "a") == "a None"


def test_value_is_reset_after_command(app: typer.Typer) -> None:
    output(app, "show", "a", "--database", URL)
    assert database_from_flag() is None


def test_other_commands_do_not_get_the_flag(app: typer.Typer) -> None:
    assert output(app, "other") == "other"
    assert "No such option" in output(app, "other", "--database", URL)
