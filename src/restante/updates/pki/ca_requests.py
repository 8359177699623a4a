"""An operator's request for a new authority: its checks, and how the authority is made.

Pure: the request is checked field by field, then turned into key and certificate; the time is an argument. The size of
an ECDSA key is that of its curve; a size that contradicts the curve is refused, not ignored.
"""

from datetime import datetime
from typing import Annotated

from msgspec import Meta

from restante.core.errors import BadInput
from restante.updates.pki.crypto.key_options import (
    AUTHORITY_KEY_USAGE,
    CURVE_DEFAULT,
    CURVE_SIZES,
    RSA_SIZE_DEFAULT,
    KeyAlgorithm,
    checked_curve,
    checked_rsa_size,
    parse_key_usage,
)
from restante.updates.pki.crypto.subject_fields import OptionalSubjectText, SubjectFields, SubjectText, check_printable
from restante.updates.pki.crypto.x509 import CertificateWithKey, make_authority, new_signing_key

VALID_DAYS_DEFAULT = 3650
VALID_DAYS_MAX = 7300


class AuthorityRequest(SubjectFields, kw_only=True):
    name: SubjectText
    algorithm: KeyAlgorithm = "ECDSA"
    key_size: int | None = None
    curve_name: str | None = None
    common_name: OptionalSubjectText = None
    valid_days: Annotated[int, Meta(ge=1, le=VALID_DAYS_MAX)] = VALID_DAYS_DEFAULT
    max_path_length: Annotated[int, Meta(ge=0, le=10)] | None = None
    key_usage: Annotated[str, Meta(max_length=256)] | None = None


def check_request(request: AuthorityRequest) -> None:
    """Raises BadInput if the request contradicts itself or does not fit into a certificate."""
    check_printable(request.name, "name")
    check_printable(request.common_name, "common_name")
    request.check_subject()
    parse_key_usage(request.key_usage or AUTHORITY_KEY_USAGE)
    if request.algorithm == "ECDSA":
        _requested_curve(request)
    else:
        _requested_rsa_size(request)


def make_requested_authority(request: AuthorityRequest, now: datetime) -> CertificateWithKey:
    """Make the authority. May take seconds."""
    subject = request.as_subject(request.common_name or request.name)
    curve = _requested_curve(request) if request.algorithm == "ECDSA" else None
    key = new_signing_key(curve, 0 if curve else _requested_rsa_size(request))
    key_usage = parse_key_usage(request.key_usage or AUTHORITY_KEY_USAGE)
    return make_authority(subject, key, now, request.valid_days, request.max_path_length, key_usage)


def _requested_curve(request: AuthorityRequest) -> str:
    if request.curve_name is None and request.key_size is not None:
        curve = next((name for name, size in CURVE_SIZES.items() if size == request.key_size), None)
    else:
        curve = checked_curve(request.curve_name or CURVE_DEFAULT, "curve_name")
    if curve is None or request.key_size not in (None, CURVE_SIZES[curve]):
        raise BadInput("key_size", "the size of the curve (256, 384 or 521), or none")
    return curve


def _requested_rsa_size(request: AuthorityRequest) -> int:
    if request.curve_name is not None:
        raise BadInput("curve_name", "none with RSA")
    return checked_rsa_size(RSA_SIZE_DEFAULT if request.key_size is None else request.key_size, "key_size")
