import msgspec
import pytest

from restante.commands.acks.ack_schema import ParsedAck
from restante.commands.legacy_api.routes import ResultBody, parse_result
from restante.core.commands.ack import AckStatus
from restante.core.errors import BadInput


def parse(**body: object) -> ParsedAck | BadInput:
    raw = msgspec.json.encode(body)
    return parse_result(msgspec.json.decode(raw, type=ResultBody), raw)


@pytest.mark.parametrize("name", ["message", "result_message", "result"])
def test_each_name_of_the_message_is_accepted(name: str) -> None:
    parsed = parse(status="completed", result_code=0, miner_id="1001", duration_ms=12, **{name: "done"})
    assert isinstance(parsed, ParsedAck)
    assert (parsed.ack.status, parsed.ack.result_code, parsed.ack.message) == (AckStatus.succeeded, "0", "done")


@pytest.mark.parametrize("name", ["message", "result_message"])
def test_two_different_messages_are_bad_input(name: str) -> None:
    error = parse(status="completed", result="done", **{name: "not done"})
    assert isinstance(error, BadInput)
    assert error.field == "result"
    assert isinstance(parse(status="completed", result="done", **{name: "done"}), ParsedAck)


def test_unknown_status_is_bad_input() -> None:
    error = parse(status="finished")
    assert isinstance(error, BadInput)
    assert error.field == "status"
