import json

import pytest
from structlog.testing import capture_logs

from restante.commands.refusals import refusal_answer
from restante.commands.wire import CommandGone
from restante.database.errors import DatabaseUnavailable


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
        answer = refusal_answer(error)
    assert (answer.status, json.loads(answer.body)["error"]) == (status, code)
    assert [line["event"] for line in lines] == logged
    assert b"secret detail" not in answer.body
