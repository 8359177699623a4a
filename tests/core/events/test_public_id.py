import pytest

from restante.core.errors import NotFound
from restante.core.events.public_id import check_public_id


@pytest.mark.parametrize("text", ["a", "0b6c-2_X", "a" * 64])
def test_valid_id_is_returned(text: str) -> None:
    assert check_public_id(text, "no such thing") == text


@pytest.mark.parametrize("text", ["", "a" * 65, "a b", "a\0", "a\n", "ü", "a/b", "\ud800"])
def test_invalid_id_is_not_found(text: str) -> None:
    with pytest.raises(NotFound, match="no such thing"):
        check_public_id(text, "no such thing")
