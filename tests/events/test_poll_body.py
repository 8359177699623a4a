import pytest

from restante.core.acknowledgement import Fault
from restante.core.errors import BadInput, UnknownField
from restante.events.poll_body import PollBody, StrictPollBody, read_poll
from restante.web.ask import decode_json


def read(body: bytes) -> tuple[int, bool, list[str], dict[str, Fault]]:
    limit, waits, verdicts = read_poll(decode_json(body, StrictPollBody), 100)
    return limit, waits, *verdicts


@pytest.mark.parametrize(
    ("body", "limit", "waits"),
    [
        (b"{}", 100, True),
        (b'{"returnImmediately":true}', 100, False),
        (b'{"maxEvents":0}', 0, False),
        (b'{"maxEvents":0,"returnImmediately":false}', 0, False),
        (b'{"maxEvents":7}', 7, True),
        (b'{"maxEvents":101,"returnImmediately":true}', 100, False),
    ],
)
def test_what_is_wanted(body: bytes, limit: int, waits: bool) -> None:
    assert read(body) == (limit, waits, [], {})


def test_what_is_said() -> None:
    body = b'{"ack":["b","a","b","c"],"setErrs":{"c":{"err":"e","description":"d"}}}'
    assert read(body)[2:] == (["a", "b"], {"c": Fault("e", "d")})


def test_members_that_are_not_known() -> None:
    for body in (b'{"x":1}', b'{"setErrs":{"a":{"err":"e","description":"d","x":1}}}'):
        with pytest.raises(UnknownField):
            decode_json(body, StrictPollBody)
        decode_json(body, PollBody)


@pytest.mark.parametrize("body", [b'{"maxEvents":null}', b'{"ack":["\\u0000"]}', b'{"ack":[""]}', b'{"ack":null}'])
def test_what_is_refused_however_lenient(body: bytes) -> None:
    for kind in (PollBody, StrictPollBody):
        with pytest.raises(BadInput):
            decode_json(body, kind)
