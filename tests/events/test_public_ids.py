"""Ids that callers name."""

import pytest

from restante.core.errors import NotFound
from restante.events.public_ids import known_form


@pytest.mark.parametrize("text", ["a", "0b6c-2_X", "a" * 64])
def test_what_can_be_an_id_passes(text: str) -> None:
    assert known_form(text, "no such thing") == text


@pytest.mark.parametrize("text", ["", "a" * 65, "a b", "a\0", "a\n", "ü", "a/b", "\ud800"])
def test_what_cannot_is_nowhere(text: str) -> None:
    with pytest.raises(NotFound, match="no such thing"):
        known_form(text, "no such thing")
