import json

import pytest
from structlog.testing import capture_logs

from restante.commands.errors import CommandGone
from restante.commands.response_format import RESPONSE_FORMAT
from restante.database.errors import DatabaseUnavailable
from restante.web.errors.error_responses import error_response


@pytest.mark.parametrize(
    ("error", "status", "code", "logged"),
    [
        (CommandGone(), 410, "COMMAND_EXPIRED", []),
        (DatabaseUnavailable("disk full"), 503, "UNAVAILABLE", ["database unavailable"]),
        (ValueError("secret detail"), 500, "INTERNAL_ERROR", ["request failed"]),
    ],
)
def test_error_becomes_response_without_details(error: Exception, status: int, code: str, logged: list[str]) -> None:
    with capture_logs() as lines:
        response = error_response(RESPONSE_FORMAT, error)
    assert (response.status, json.loads(response.body)["error"]) == (status, code)
    assert [line["event"] for line in lines] == logged
    assert b"secret detail" not in response.body
