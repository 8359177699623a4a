import json

import pytest
from structlog.testing import capture_logs

from restante.commands.wire import SHAPE, CommandGone
from restante.database.errors import DatabaseUnavailable
from restante.web.refusals import refusal_in


@pytest.mark.parametrize(
    ("error", "status", "code", "logged"),
    [
        (CommandGone(), 410, "COMMAND_EXPIRED", []),
        (DatabaseUnavailable("disk full"), 503, "UNAVAILABLE", ["database unavailable"]),
        (ValueError("secret detail"), 500, "INTERNAL_ERROR", ["request failed"]),
    ],
)
def test_an_error_becomes_its_answer(error: Exception, status: int, code: str, logged: list[str]) -> None:
    with capture_logs() as lines:
        answer = refusal_in(SHAPE, error)
    assert (answer.status, json.loads(answer.body)["error"]) == (status, code)
    assert [line["event"] for line in lines] == logged
    assert b"secret detail" not in answer.body
