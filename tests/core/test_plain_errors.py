from datetime import datetime
from typing import Annotated, Any
from uuid import UUID

import pytest
from msgspec import Meta

from restante.core.decoding import convert
from restante.core.errors import BadInput


@pytest.mark.parametrize(
    ("value", "type", "expected"),
    [
        ("x", int, "a whole number, not a text"),
        (900, Annotated[int, Meta(le=100)], "a whole number, at most 100"),
        (0, Annotated[int, Meta(ge=1)], "a whole number, at least 1"),
        ("x", float | None, "a number or null, not a text"),
        (1, str, "a text, not a whole number"),
        ("", Annotated[str, Meta(min_length=1)], "a text of length at least 1"),
        ("x", Annotated[str, Meta(pattern="^[0-9]$")], "a text matching regex '^[0-9]$'"),
        ({}, list[int], "a list, not an object"),
        ([1, 2], Annotated[list[int], Meta(max_length=1)], "a list of length at most 1"),
        ([], dict[str, int], "an object, not a list"),
        (1, bool, "true or false, not a whole number"),
        ("till-1", UUID, "a valid UUID"),
        ("soon", datetime, "a valid RFC3339 encoded datetime"),
    ],
)
def test_wrong_value_is_refused_in_plain_words(value: object, type: Any, expected: str) -> None:
    with pytest.raises(BadInput) as caught:
        convert(value, type, "field")
    assert str(caught.value) == f"field: expected {expected}"
