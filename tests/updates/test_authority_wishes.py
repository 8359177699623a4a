from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa

from restante.core.errors import BadInput
from restante.updates.authority_wishes import AuthorityWish, check_printable, check_wish, fulfil_wish
from restante.web.ask import convert

NOW = datetime(2027, 1, 15, 8, tzinfo=UTC)


def wish(**fields: Any) -> AuthorityWish:
    wished = convert({"name": "Workshop CA", **fields}, AuthorityWish, "body")
    check_wish(wished)
    return wished


@pytest.mark.parametrize(
    ("fields", "size"),
    [
        ({}, 256),
        ({"curve_name": "prime256v1"}, 256),
        ({"curve_name": "P-256", "key_size": 256}, 256),
        ({"curve_name": "secp384r1"}, 384),
        ({"curve_name": "p384"}, 384),
        ({"key_size": 384}, 384),
        ({"curve_name": "P-521"}, 521),
        ({"curve_name": "SECP521R1"}, 521),
    ],
)
def test_ecdsa(fields: dict[str, Any], size: int) -> None:
    key = fulfil_wish(wish(**fields), NOW).certificate.public_key()
    assert isinstance(key, ec.EllipticCurvePublicKey)
    assert key.key_size == size


@pytest.mark.parametrize(("fields", "size"), [({}, 3072), ({"key_size": 2048}, 2048)])
def test_rsa(fields: dict[str, Any], size: int) -> None:
    key = fulfil_wish(wish(algorithm="RSA", **fields), NOW).certificate.public_key()
    assert isinstance(key, rsa.RSAPublicKey)
    assert key.key_size == size


def test_the_subject_and_validity_are_as_wished() -> None:
    certificate = fulfil_wish(
        wish(
            common_name="Root",
            organization="Org",
            organizational_unit="Unit",
            country="de",
            state="Berlin",
            locality="Mitte",
            valid_days=7,
        ),
        NOW,
    ).certificate
    assert certificate.subject.rfc4514_string() == "CN=Root,OU=Unit,O=Org,L=Mitte,ST=Berlin,C=DE"
    assert certificate.not_valid_after_utc == NOW + timedelta(days=7)


def test_what_is_not_wished_has_a_default() -> None:
    certificate = fulfil_wish(wish(), NOW).certificate
    assert certificate.subject.rfc4514_string() == "CN=Workshop CA"
    assert certificate.not_valid_after_utc == NOW + timedelta(days=3650)


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"name": ""}, "name"),
        ({"name": "x" * 65}, "name"),
        ({"name": "a\nb"}, "name"),
        ({"name": " "}, "name"),
        ({"algorithm": "DSA"}, "algorithm"),
        ({"algorithm": "RSA", "key_size": 1024}, "key_size"),
        ({"algorithm": "RSA", "key_size": 2049}, "key_size"),
        ({"algorithm": "RSA", "curve_name": "P-256"}, "curve_name"),
        ({"curve_name": "P-192"}, "curve_name"),
        ({"key_size": 2048}, "key_size"),
        ({"curve_name": "P-256", "key_size": 384}, "key_size"),
        ({"common_name": "x" * 65}, "common_name"),
        ({"common_name": "a\0"}, "common_name"),
        ({"organization": ""}, "organization"),
        ({"organizational_unit": "x" * 65}, "organizational_unit"),
        ({"country": "Germany"}, "country"),
        ({"country": "ÄÖ"}, "country"),
        ({"state": "x" * 129}, "state"),
        ({"locality": "\u202e"}, "locality"),
        ({"valid_days": 0}, "valid_days"),
        ({"valid_days": 7301}, "valid_days"),
        ({"max_path_length": -1}, "max_path_length"),
        ({"max_path_length": 11}, "max_path_length"),
        ({"colour": 1}, "colour"),
    ],
)
def test_a_wish_that_cannot_be_fulfilled_names_its_field(fields: dict[str, Any], field: str) -> None:
    with pytest.raises(BadInput) as caught:
        wish(**fields)
    assert caught.value.field in (field, f"body.{field}")


def test_the_bounds_themselves_are_allowed() -> None:
    for fields in ({"valid_days": 1}, {"valid_days": 7300}, {"max_path_length": 0}, {"max_path_length": 10}):
        wish(**fields)
    for size in (2048, 3072, 4096):
        wish(algorithm="RSA", key_size=size)


def test_no_text_is_fine() -> None:
    check_printable(None, "state")
