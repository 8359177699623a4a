import json

import pytest

from restante.core.errors import BadInput
from restante.delivery.log.signals import REF_BYTES_MAX, Signal, check_signal


def test_payload_is_exactly_the_signal() -> None:
    signal = Signal("install.updated", 1736900123421, {"config_id": 1234, "installs_hash_b64": None})
    assert json.loads(signal.payload()) == {
        "type": "install.updated",
        "ts_ms": 1736900123421,
        "ref": {"config_id": 1234, "installs_hash_b64": None},
    }


@pytest.mark.parametrize("type", ["x", "x" * 128, "my own type", "größe.geändert"])
def test_type_is_free_text(type: str) -> None:
    assert check_signal(type, 1, {}).type == type


@pytest.mark.parametrize("type", ["", "x" * 129, "a\nb", "a\x00b", "a\x7f", "a\ud800", "\u202e"])
def test_type_must_be_printable_and_short(type: str) -> None:
    with pytest.raises(BadInput) as refused:
        check_signal(type, 1, {})
    assert refused.value.field == "type"


@pytest.mark.parametrize("ts_ms", [0, 2**53 - 1])
def test_timestamps_that_every_json_reader_can_hold_are_accepted(ts_ms: int) -> None:
    assert check_signal("x", ts_ms, {}).ts_ms == ts_ms


@pytest.mark.parametrize("ts_ms", [-1, 2**53, 10**30])
def test_other_timestamps_are_refused(ts_ms: int) -> None:
    with pytest.raises(BadInput) as refused:
        check_signal("x", ts_ms, {})
    assert refused.value.field == "ts_ms"


def test_ref_has_at_most_four_kib_of_json() -> None:
    room = REF_BYTES_MAX - len('{"a":""}')
    assert check_signal("x", 1, {"a": "b" * room}).ref == {"a": "b" * room}
    for ref in ({"a": "b" * (room + 1)}, {"a": "ü" * (room // 2 + 1)}):
        with pytest.raises(BadInput) as refused:
            check_signal("x", 1, ref)
        assert refused.value.field == "ref"


def test_ref_that_cannot_be_encoded_is_refused() -> None:
    for ref in ({"a": "\ud800"}, {"\ud800": 1}):
        with pytest.raises(BadInput) as refused:
            check_signal("x", 1, ref)
        assert refused.value.field == "ref"
