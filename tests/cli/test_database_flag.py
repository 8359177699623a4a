import pytest
import typer
from typer.testing import CliRunner

from restante.cli.database_flag import add_to_all, given_database
from restante.cli.options import DataOption

URL = "postgresql://ada@/restante"


@pytest.fixture
def app() -> typer.Typer:
    app, group = typer.Typer(), typer.Typer()

    @app.command("look")
    def look(name: str, data: DataOption = None) -> None:
        typer.echo(f"{name} {given_database()}")

    @group.command("look")
    def look_in_group(data: DataOption = None) -> None:
        typer.echo(f"{given_database()}")

    @app.command("other")
    def other() -> None:
        typer.echo("other")

    app.add_typer(group, name="group")
    add_to_all(app)
    return app


def said(app: typer.Typer, *words: str) -> str:
    return CliRunner().invoke(app, list(words)).output.strip()


def test_commands_that_take_data_take_a_database_too(app: typer.Typer) -> None:
    assert said(app, "look", "a", "--database", URL) == f"a {URL}"
    assert said(app, "group", "look", "--database", URL) == URL
    assert said(app, "look", "a") == "a None"


def test_it_is_forgotten_when_the_command_has_ended(app: typer.Typer) -> None:
    said(app, "look", "a", "--database", URL)
    assert given_database() is None


def test_other_commands_do_not(app: typer.Typer) -> None:
    assert said(app, "other") == "other"
    assert "No such option" in said(app, "other", "--database", URL)
