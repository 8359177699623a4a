"""Names in requests for keys and their use: curves, RSA sizes, key usages. Pure.

A curve has several names in the field; the one that is stored is the NIST name. A key usage is stored in the
certificate alone, so the names are also read from there.
"""

from dataclasses import dataclass
from typing import Literal

from cryptography import x509

from restante.core.errors import BadInput

RSA_SIZES = (2048, 3072, 4096)
RSA_SIZE_DEFAULT = 3072
LEAF_RSA_SIZE_DEFAULT = 2048
CURVE_DEFAULT = "P-256"
CURVE_SIZES = {"P-256": 256, "P-384": 384, "P-521": 521}
AUTHORITY_KEY_USAGE = "digitalSignature,keyCertSign,cRLSign"

_CURVE_SPELLINGS = {
    "p-256": "P-256",
    "p256": "P-256",
    "prime256v1": "P-256",
    "secp256r1": "P-256",
    "nistp256": "P-256",
    "p-384": "P-384",
    "p384": "P-384",
    "secp384r1": "P-384",
    "nistp384": "P-384",
    "p-521": "P-521",
    "p521": "P-521",
    "secp521r1": "P-521",
    "nistp521": "P-521",
}
# The names of RFC 5280 in their order there, and the arguments of x509.KeyUsage.
_KEY_USAGES = {
    "digitalSignature": "digital_signature",
    "nonRepudiation": "content_commitment",
    "keyEncipherment": "key_encipherment",
    "dataEncipherment": "data_encipherment",
    "keyAgreement": "key_agreement",
    "keyCertSign": "key_cert_sign",
    "cRLSign": "crl_sign",
    "encipherOnly": "encipher_only",
    "decipherOnly": "decipher_only",
}
_USAGE_SPELLINGS = {name.lower(): name for name in _KEY_USAGES} | {"contentcommitment": "nonRepudiation"}

KeyAlgorithm = Literal["ECDSA", "RSA"]


@dataclass(frozen=True, slots=True)
class LeafKey:
    """The kind of key that a certificate gets: ECDSA on a curve, or RSA of a size."""

    curve: str | None
    rsa_bits: int = LEAF_RSA_SIZE_DEFAULT


def checked_curve(text: str, field: str) -> str:
    curve = _CURVE_SPELLINGS.get(text.lower())
    if curve is None:
        raise BadInput(field, "P-256, P-384 or P-521")
    return curve


def checked_rsa_size(size: int, field: str) -> int:
    if size not in RSA_SIZES:
        raise BadInput(field, "2048, 3072 or 4096")
    return size


def parse_key_usage(text: str) -> x509.KeyUsage:
    """The key usage of an authority, from names separated by commas; raises BadInput with the field."""
    names = {_USAGE_SPELLINGS.get(part.strip().lower()) for part in text.split(",")}
    if None in names:
        raise BadInput("key_usage", f"names of {', '.join(_KEY_USAGES)}, separated by commas")
    if "keyCertSign" not in names:
        raise BadInput("key_usage", "keyCertSign among the names: an authority issues certificates")
    if names & {"encipherOnly", "decipherOnly"} and "keyAgreement" not in names:
        raise BadInput("key_usage", "keyAgreement beside encipherOnly or decipherOnly")
    return x509.KeyUsage(**{argument: name in names for name, argument in _KEY_USAGES.items()})


def key_usage_text(certificate: x509.Certificate) -> str | None:
    """The certificate's key usage as names separated by commas; None if it has none."""
    try:
        usage = certificate.extensions.get_extension_for_class(x509.KeyUsage).value
    except x509.ExtensionNotFound:
        return None
    return ",".join(name for name, argument in _KEY_USAGES.items() if _is_set(usage, argument))


def _is_set(usage: x509.KeyUsage, argument: str) -> bool:
    # Without key agreement the last two are undefined, and reading them raises.
    if argument in ("encipher_only", "decipher_only") and not usage.key_agreement:
        return False
    return bool(getattr(usage, argument))
