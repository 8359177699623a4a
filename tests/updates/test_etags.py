import pytest
from starlette.requests import Request

from restante.core.errors import BadInput
from restante.updates.etags import expected_version, is_known, version_etag
from restante.web.ask import Ask


def ask(*headers: tuple[str, str]) -> Ask:
    raw = [(name.encode(), value.encode()) for name, value in headers]
    return Ask(Request({"type": "http", "headers": raw}), None)


def test_a_version_goes_out_quoted() -> None:
    assert version_etag(7) == (b"etag", b'"7"')


@pytest.mark.parametrize("tag", ["7", '"7"', 'W/"7"', ' "7" ', '"6", "7"', "*"])
def test_the_ways_to_say_that_version_7_is_known(tag: str) -> None:
    assert is_known(ask(("if-none-match", tag)), 7)


@pytest.mark.parametrize("tag", ["6", '"77"', "", '"', "x", '""'])
def test_what_does_not_say_so(tag: str) -> None:
    assert not is_known(ask(("if-none-match", tag)), 7)


def test_no_header_says_nothing() -> None:
    assert not is_known(ask(), 7)
    assert expected_version(ask()) is None


@pytest.mark.parametrize("tag", ["7", '"7"', 'W/"7"'])
def test_the_version_to_be_changed(tag: str) -> None:
    assert expected_version(ask(("if-match", tag))) == 7


@pytest.mark.parametrize("tag", ["", "x", "*", "-1", '"7", "8"', "9223372036854775808"])
def test_what_is_no_version_is_refused(tag: str) -> None:
    with pytest.raises(BadInput, match=r"^If-Match: "):
        expected_version(ask(("if-match", tag)))


def test_two_expectations_are_refused() -> None:
    with pytest.raises(BadInput, match=r"^If-Match: "):
        expected_version(ask(("if-match", "7"), ("if-match", "8")))
