from typing import Annotated, Any

import msgspec
import pytest
from msgspec import UNSET, Meta

from restante.core.errors import BadInput, MissingField, UnknownField
from restante.web.bulk.bulk_requests import decoded_params


class Params(msgspec.Struct, forbid_unknown_fields=True):
    size: Annotated[int, Meta(ge=1)]


@pytest.mark.parametrize(
    ("raw", "error", "field"),
    [
        (UNSET, MissingField, "params.size"),
        (msgspec.Raw(b'{"size": 1, "x": 2}'), UnknownField, "params.x"),
        (msgspec.Raw(b'{"size": 0}'), BadInput, "params.size"),
        (msgspec.Raw(b"[]"), BadInput, "params"),
    ],
)
def test_wrong_parameter_is_named_within_params(raw: Any, error: type[BadInput], field: str) -> None:
    with pytest.raises(error) as raised:
        decoded_params(raw, Params)
    assert raised.value.field == field


def test_parameters_are_decoded() -> None:
    assert decoded_params(msgspec.Raw(b'{"size": 3}'), Params) == Params(3)
