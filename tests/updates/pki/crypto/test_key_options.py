import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes

from restante.core.errors import BadInput
from restante.updates.pki.crypto.key_options import (
    RSA_SIZES,
    checked_curve,
    checked_rsa_size,
    key_usage_text,
    parse_key_usage,
)
from restante.updates.pki.crypto.x509 import CertificateSubject, make_authority, new_signing_key, utc_datetime
from tests.conftest import START_MS


def authority_with(text: str) -> x509.Certificate:
    key, now = new_signing_key("P-256", 0), utc_datetime(START_MS)
    return make_authority(CertificateSubject("CA"), key, now, 1, None, parse_key_usage(text)).certificate


@pytest.mark.parametrize(
    ("text", "stored"),
    [
        ("keyCertSign", "keyCertSign"),
        ("cRLSign,keyCertSign", "keyCertSign,cRLSign"),
        (" KeyCertSign , CRLSIGN ", "keyCertSign,cRLSign"),
        ("keyCertSign,keyCertSign", "keyCertSign"),
        ("keyCertSign,contentCommitment", "nonRepudiation,keyCertSign"),
        (
            "digitalSignature,nonRepudiation,keyEncipherment,dataEncipherment,keyAgreement,keyCertSign,cRLSign,encipherOnly",
            "digitalSignature,nonRepudiation,keyEncipherment,dataEncipherment,keyAgreement,keyCertSign,cRLSign,encipherOnly",
        ),
        ("keyCertSign,keyAgreement,decipherOnly", "keyAgreement,keyCertSign,decipherOnly"),
    ],
)
def test_key_usage_is_in_the_certificate(text: str, stored: str) -> None:
    assert key_usage_text(authority_with(text)) == stored


@pytest.mark.parametrize(
    "text", ["", "keyCertSign,", "keyCertSign;cRLSign", "serverAuth", "cRLSign", "keyCertSign,decipherOnly"]
)
def test_bad_key_usage_names_the_field(text: str) -> None:
    with pytest.raises(BadInput, match=r"^key_usage: "):
        parse_key_usage(text)


def test_certificate_without_the_extension_has_no_key_usage() -> None:
    key, name, now = new_signing_key("P-256", 0), x509.Name([]), utc_datetime(START_MS)
    builder = x509.CertificateBuilder(name, name, key.public_key(), 7, now, now)
    assert key_usage_text(builder.sign(key, hashes.SHA256())) is None


@pytest.mark.parametrize(("text", "curve"), [("prime256v1", "P-256"), ("SECP384R1", "P-384"), ("P-521", "P-521")])
def test_curve_has_one_stored_name(text: str, curve: str) -> None:
    assert checked_curve(text, "leaf_ec_curve") == curve


def test_unknown_curve_and_size_name_the_field() -> None:
    with pytest.raises(BadInput, match=r"^leaf_ec_curve: "):
        checked_curve("P-192", "leaf_ec_curve")
    with pytest.raises(BadInput, match=r"^leaf_rsa_bits: "):
        checked_rsa_size(1024, "leaf_rsa_bits")
    assert [checked_rsa_size(size, "leaf_rsa_bits") for size in RSA_SIZES] == [2048, 3072, 4096]
