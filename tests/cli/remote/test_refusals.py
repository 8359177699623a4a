"""The messages for refusals, and for a server that cannot be reached."""

from pathlib import Path

import pytest
from restante_client.errors import NotFound, RestanteError, Unreachable
from typer.testing import CliRunner

from restante import __version__
from restante.cli.main import app
from restante.cli.remote.refusals import NO_ROUTE, Refused, translated, with_flags
from restante.web import application

FLAGS = {"tag": "--tag", "filter.tag": "--tag", "params.ttl_sec": "--ttl", "waves": "--wave"}


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        ("tag: expected a tag", "--tag: expected a tag"),
        ("filter.tag: expected a tag", "--tag: expected a tag"),
        ("params.ttl_sec: expected a number", "--ttl: expected a number"),
        ("waves[1].percent: expected more", "--wave[1].percent: expected more"),
        ("other: expected", "other: expected"),
        ("there is no such device", "there is no such device"),
    ],
)
def test_refusals_name_flags(message: str, expected: str) -> None:
    assert with_flags(message, FLAGS) == expected


def refused(error: RestanteError) -> str:
    with pytest.raises(Refused) as caught, translated(FLAGS):
        raise error
    return str(caught.value)


def test_unknown_route_says_that_the_server_may_be_older() -> None:
    assert f"older than this program ({__version__})" in refused(NotFound(404, "5003", NO_ROUTE))
    assert NO_ROUTE in Path(application.__file__).read_text("utf-8")


def test_unreachable_server_is_named_with_a_hint(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RESTANTE_API_KEY", "rk_x")
    monkeypatch.setenv("RESTANTE_SERVER", "http://127.0.0.1:1")
    result = CliRunner().invoke(app, ["site", "list"])
    assert result.exit_code == 1
    assert result.stderr.startswith("restante: http://127.0.0.1:1 cannot be reached: Connection refused (is the")
    text = "GET https://a.example/x: ConnectError: [SSL: CERTIFICATE_VERIFY_FAILED] certificate verify failed"
    assert "SSL_CERT_FILE" in refused(Unreachable(text))
    assert refused(Unreachable("no complete response")) == "no complete response"
