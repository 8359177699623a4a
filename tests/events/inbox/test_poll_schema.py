import pytest

from restante.core.decoding import decode_json
from restante.core.errors import BadInput, UnknownField
from restante.core.events.poll_acks import Fault
from restante.events.inbox.poll_schema import PollBody, StrictPollBody, parse_poll


def parse(body: bytes) -> tuple[int, bool, list[str], dict[str, Fault]]:
    limit, waits, verdicts = parse_poll(decode_json(body, StrictPollBody), 100)
    return limit, waits, *verdicts


@pytest.mark.parametrize(
    ("body", "limit", "waits"),
    [
        (b"{}", 100, True),
        (b'{"returnImmediately":true}', 100, False),
        (b'{"maxEvents":0}', 0, False),
        (b'{"maxEvents":0,"returnImmediately":false}', 0, False),
        (b'{"maxEvents":7}', 7, True),
        (b'{"maxEvents":7.0}', 7, True),
        (b'{"maxEvents":1e1}', 10, True),
        (b'{"maxEvents":101,"returnImmediately":true}', 100, False),
    ],
)
def test_limit_and_wait_are_parsed(body: bytes, limit: int, waits: bool) -> None:
    assert parse(body) == (limit, waits, [], {})


def test_acknowledgements_and_errors_are_parsed() -> None:
    body = b'{"ack":["b","a","b","c"],"setErrs":{"c":{"err":"e","description":"d"}}}'
    assert parse(body)[2:] == (["a", "b"], {"c": Fault("e", "d")})


def test_unknown_members_are_refused_only_when_strict() -> None:
    with pytest.raises(UnknownField):
        decode_json(b'{"x":1}', StrictPollBody)
    decode_json(b'{"x":1}', PollBody)


def test_unknown_members_of_an_error_are_ignored() -> None:
    assert parse(b'{"setErrs":{"a":{"err":"e","description":"d","x":1}}}')[3] == {"a": Fault("e", "d")}


@pytest.mark.parametrize("body", [b'{"maxEvents":null}', b'{"ack":["\\u0000"]}', b'{"ack":[""]}', b'{"ack":null}'])
def test_invalid_values_are_refused_also_when_lenient(body: bytes) -> None:
    for kind in (PollBody, StrictPollBody):
        with pytest.raises(BadInput):
            parse_poll(decode_json(body, kind), 100)
