"""What an operator may wish of a new authority, and how the wish is carried out.

Pure: the wish is checked field by field, then made into key and certificate with the time it is given. An
ECDSA key's size is its curve's; a size that contradicts the curve is refused rather than ignored.
"""

from datetime import datetime
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from restante.core.errors import BadInput
from restante.updates.x509 import Keyed, Subject, make_authority, new_signing_key

VALID_DAYS_DEFAULT = 3650
VALID_DAYS_MAX = 7300
RSA_SIZES = (2048, 3072, 4096)
RSA_SIZE_DEFAULT = 3072
CURVE_DEFAULT = "P-256"

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
_CURVE_SIZES = {"P-256": 256, "P-384": 384, "P-521": 521}

# What goes into a certificate's subject: bounded by X.520, and without characters that hide.
SubjectText = Annotated[str, Meta(min_length=1, max_length=64)]
PlaceText = Annotated[str, Meta(min_length=1, max_length=128)]


class AuthorityWish(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    name: SubjectText
    algorithm: Literal["ECDSA", "RSA"] = "ECDSA"
    key_size: int | None = None
    curve_name: str | None = None
    common_name: SubjectText | None = None
    organization: SubjectText | None = None
    organizational_unit: SubjectText | None = None
    country: Annotated[str, Meta(pattern=r"^[A-Za-z]{2}\Z")] | None = None
    state: PlaceText | None = None
    locality: PlaceText | None = None
    valid_days: Annotated[int, Meta(ge=1, le=VALID_DAYS_MAX)] = VALID_DAYS_DEFAULT
    max_path_length: Annotated[int, Meta(ge=0, le=10)] | None = None


def check_wish(wish: AuthorityWish) -> None:
    """BadInput where the wish contradicts itself or cannot be written into a certificate."""
    for field in ("name", "common_name", "organization", "organizational_unit", "state", "locality"):
        check_printable(getattr(wish, field), field)
    if wish.algorithm == "ECDSA":
        _wished_curve(wish)
    else:
        _wished_rsa_size(wish)


def fulfil_wish(wish: AuthorityWish, now: datetime) -> Keyed:
    """Make the authority. Takes up to seconds."""
    subject = Subject(
        common_name=wish.common_name or wish.name,
        organization=wish.organization,
        organizational_unit=wish.organizational_unit,
        country=wish.country.upper() if wish.country else None,
        state=wish.state,
        locality=wish.locality,
    )
    curve = _wished_curve(wish) if wish.algorithm == "ECDSA" else None
    key = new_signing_key(curve, 0 if curve else _wished_rsa_size(wish))
    return make_authority(subject, key, now, wish.valid_days, wish.max_path_length)


def check_printable(text: str | None, field: str) -> None:
    if text is not None and not (text.isprintable() and text.strip()):
        raise BadInput(field, "printable characters")


def _wished_curve(wish: AuthorityWish) -> str:
    if wish.curve_name is None and wish.key_size is not None:
        curve = next((name for name, size in _CURVE_SIZES.items() if size == wish.key_size), None)
    else:
        curve = _CURVE_SPELLINGS.get((wish.curve_name or CURVE_DEFAULT).lower())
        if curve is None:
            raise BadInput("curve_name", "P-256, P-384 or P-521")
    if curve is None or wish.key_size not in (None, _CURVE_SIZES[curve]):
        raise BadInput("key_size", "the size of the curve (256, 384 or 521), or none")
    return curve


def _wished_rsa_size(wish: AuthorityWish) -> int:
    if wish.curve_name is not None:
        raise BadInput("curve_name", "none with RSA")
    size = RSA_SIZE_DEFAULT if wish.key_size is None else wish.key_size
    if size not in RSA_SIZES:
        raise BadInput("key_size", "2048, 3072 or 4096")
    return size
