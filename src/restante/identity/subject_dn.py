"""Distinguished names of certificates: read from RFC 4514 text, and compared.

Names are compared as X.509 does (RFC 5280, 7.1): attribute by attribute, by the attribute's object identifier and not
by what it is called, without regard to case, to runs of spaces or to the kind of string; the attributes of one
relative name in any order. Names that are equal so have one canonical text, which is what is stored and looked for.
"""

import re
import unicodedata

from cryptography.x509 import Name
from cryptography.x509.oid import NameOID

LENGTH_MAX = 1024
EXPECTED = "a subject as RFC 4514 writes it, most specific part first: CN=app,O=Example Ltd,C=GB"

# What certificates of banks and their third parties have, beside the names that RFC 4514 itself lists.
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
_IN_HEXADECIMAL = re.compile(r"(?:^|[,+])[^=,+]+=#")


def canonical(text: str) -> str:
    """The canonical form of a name that somebody wrote; ValueError if it is none."""
    # A value given as the bytes of its encoding would have to be compared as such: write it as text.
    if not text or len(text) > LENGTH_MAX or "\0" in text or _IN_HEXADECIMAL.search(text):
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
