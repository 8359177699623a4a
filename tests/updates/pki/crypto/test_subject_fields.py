from typing import Any

import pytest

from restante.core.decoding import convert
from restante.core.errors import BadInput
from restante.updates.pki.crypto.subject_fields import SubjectFields, check_printable
from restante.updates.pki.crypto.x509 import NO_SUBJECT


def fields(**given: Any) -> SubjectFields:
    return convert(given, SubjectFields, "body")


def test_all_parts_are_in_the_subject() -> None:
    given = fields(organization="O", organizational_unit="OU", country="us", state="CA", locality="San Jose")
    given.check_subject()
    assert given.as_subject("a.example").as_name().rfc4514_string() == "CN=a.example,OU=OU,O=O,L=San Jose,ST=CA,C=US"


def test_empty_and_null_parts_are_absent() -> None:
    for value in ("", None):
        names = ("organization", "organizational_unit", "country", "state", "locality")
        assert fields(**dict.fromkeys(names, value)).as_subject() == NO_SUBJECT


@pytest.mark.parametrize(
    ("given", "field"),
    [({"country": "DEU"}, "country"), ({"country": "D"}, "country"), ({"state": "x" * 129}, "state")],
)
def test_part_out_of_bounds_is_refused(given: dict[str, Any], field: str) -> None:
    with pytest.raises(BadInput) as caught:
        fields(**given)
    assert caught.value.field == field


@pytest.mark.parametrize("field", ["organization", "organizational_unit", "state", "locality"])
def test_unprintable_part_is_refused(field: str) -> None:
    with pytest.raises(BadInput, match=f"^{field}: "):
        fields(**{field: "a\nb"}).check_subject()


def test_missing_text_is_printable() -> None:
    check_printable(None, "state")
