"""Distinguished names of certificates: parsed from RFC 4514 text, and compared.

Names are compared as X.509 does (RFC 5280, 7.1): attribute by attribute, by the attribute's object identifier and not
its short name, ignoring case, runs of spaces and the string type; the attributes of one relative name in any order.
Equal names have the same canonical text. That text is stored and searched.
"""

import re
import unicodedata

from cryptography.x509 import Name
from cryptography.x509.oid import NameOID

LENGTH_MAX = 1024
EXPECTED = "a subject as RFC 4514 writes it, most specific part first: CN=app,O=Example Ltd,C=GB"

# Attributes in certificates of banks and their third parties, beside those that RFC 4514 itself lists.
_ATTRIBUTES = {
    "serialNumber": NameOID.SERIAL_NUMBER,
    "SERIALNUMBER": NameOID.SERIAL_NUMBER,
    "organizationIdentifier": NameOID.ORGANIZATION_IDENTIFIER,
    "businessCategory": NameOID.BUSINESS_CATEGORY,
    "jurisdictionC": NameOID.JURISDICTION_COUNTRY_NAME,
    "jurisdictionL": NameOID.JURISDICTION_LOCALITY_NAME,
    "jurisdictionST": NameOID.JURISDICTION_STATE_OR_PROVINCE_NAME,
    "emailAddress": NameOID.EMAIL_ADDRESS,
    "postalCode": NameOID.POSTAL_CODE,
    "street": NameOID.STREET_ADDRESS,
    "title": NameOID.TITLE,
    "SN": NameOID.SURNAME,
    "GN": NameOID.GIVEN_NAME,
    "dnQualifier": NameOID.DN_QUALIFIER,
}
_HEX_VALUE = re.compile(r"(?:^|[,+])[^=,+]+=#")


def canonical(text: str) -> str:
    """The canonical form of a written name; raises ValueError if the text is not a name."""
    # A value written as the bytes of its encoding (`#04…`) could only be compared as bytes, so it must be text.
    if not text or len(text) > LENGTH_MAX or "\0" in text or _HEX_VALUE.search(text):
        raise ValueError
    name = canonical_of(Name.from_rfc4514_string(text, _ATTRIBUTES))
    if "\0" in name:
        raise ValueError
    return name


def canonical_of(name: Name) -> str:
    """The canonical form of a certificate's name."""
    relative = [
        "+".join(sorted(f"{each.oid.dotted_string}={_folded(each.value)}" for each in rdn))
        for rdn in reversed(name.rdns)
    ]
    return ",".join(relative)


def _folded(value: str | bytes) -> str:
    if isinstance(value, bytes):
        return "#" + value.hex()
    folded = " ".join(unicodedata.normalize("NFKC", value).casefold().split())
    return re.sub(r'([\\,+"=#;<>])', r"\\\1", folded)
