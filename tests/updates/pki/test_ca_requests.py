from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec, rsa

from restante.core.decoding import convert
from restante.core.errors import BadInput
from restante.updates.pki.ca_requests import AuthorityRequest, check_request, make_requested_authority
from restante.updates.pki.crypto.key_options import key_usage_text

NOW = datetime(2027, 1, 15, 8, tzinfo=UTC)


def request(**fields: Any) -> AuthorityRequest:
    checked = convert({"name": "Workshop CA", **fields}, AuthorityRequest, "body")
    check_request(checked)
    return checked


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
def test_ecdsa_key_has_the_requested_curve(fields: dict[str, Any], size: int) -> None:
    key = make_requested_authority(request(**fields), NOW).certificate.public_key()
    assert isinstance(key, ec.EllipticCurvePublicKey)
    assert key.key_size == size


@pytest.mark.parametrize(("fields", "size"), [({}, 3072), ({"key_size": 2048}, 2048)])
def test_rsa_key_has_the_requested_size(fields: dict[str, Any], size: int) -> None:
    key = make_requested_authority(request(algorithm="RSA", **fields), NOW).certificate.public_key()
    assert isinstance(key, rsa.RSAPublicKey)
    assert key.key_size == size


def test_subject_and_validity_are_as_requested() -> None:
    certificate = make_requested_authority(
        request(
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


def test_missing_fields_have_defaults() -> None:
    certificate = make_requested_authority(request(), NOW).certificate
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
        ({"organization": " "}, "organization"),
        ({"key_usage": "keyCertSign,signEverything"}, "key_usage"),
        ({"key_usage": "keyCertSign,"}, "key_usage"),
        ({"key_usage": "cRLSign"}, "key_usage"),
        ({"key_usage": "keyCertSign,encipherOnly"}, "key_usage"),
        ({"key_usage": "keyCertSign," * 30}, "key_usage"),
        ({"key_usage": ["keyCertSign"]}, "key_usage"),
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
def test_bad_request_names_the_field(fields: dict[str, Any], field: str) -> None:
    with pytest.raises(BadInput) as caught:
        request(**fields)
    assert caught.value.field in (field, f"body.{field}")


def test_bounds_are_allowed() -> None:
    for fields in ({"valid_days": 1}, {"valid_days": 7300}, {"max_path_length": 0}, {"max_path_length": 10}):
        request(**fields)
    for size in (2048, 3072, 4096):
        request(algorithm="RSA", key_size=size)


FIELD_REQUEST = {
    "algorithm": "ECDSA",
    "key_size": 256,
    "curve_name": "prime256v1",
    "country": "CN",
    "organization": "Test Org",
    "organizational_unit": "",
    "common_name": "Test Root CA",
    "state": "",
    "locality": "",
    "valid_days": 3650,
    "max_path_length": 0,
    "key_usage": "keyCertSign,cRLSign",
}


def test_request_of_the_certificate_product_is_accepted() -> None:
    certificate = make_requested_authority(request(**FIELD_REQUEST), NOW).certificate
    assert certificate.subject.rfc4514_string() == "CN=Test Root CA,O=Test Org,C=CN"
    extension = certificate.extensions.get_extension_for_class(x509.KeyUsage)
    assert extension.critical
    assert key_usage_text(certificate) == "keyCertSign,cRLSign"


@pytest.mark.parametrize(
    "field", ["curve_name", "common_name", "organization", "organizational_unit", "country", "state", "locality"]
)
def test_empty_text_means_absent(field: str) -> None:
    certificate = make_requested_authority(request(**{field: ""}), NOW).certificate
    assert certificate.subject.rfc4514_string() == "CN=Workshop CA"


@pytest.mark.parametrize("absent", [{}, {"key_usage": None}, {"key_usage": ""}])
def test_default_key_usage(absent: dict[str, Any]) -> None:
    certificate = make_requested_authority(request(**absent), NOW).certificate
    assert key_usage_text(certificate) == "digitalSignature,keyCertSign,cRLSign"
