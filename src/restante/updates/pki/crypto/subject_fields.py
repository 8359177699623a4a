"""The subject of a certificate in requests: its parts, their bounds and their checks.

Clients in the field send an empty text for a part that they leave out. So an optional text that is empty counts as
absent, in every request that inherits from `SubjectFields`. Lengths are those of X.520.
"""

from typing import Annotated

import msgspec
from msgspec import Meta

from restante.core.errors import BadInput
from restante.updates.pki.crypto.x509 import CertificateSubject

SubjectText = Annotated[str, Meta(min_length=1, max_length=64)]
OptionalSubjectText = Annotated[str, Meta(max_length=64)] | None
OptionalPlaceText = Annotated[str, Meta(max_length=128)] | None


class SubjectFields(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    organization: OptionalSubjectText = None
    organizational_unit: OptionalSubjectText = None
    country: Annotated[str, Meta(pattern=r"^([A-Za-z]{2})?\Z")] | None = None
    state: OptionalPlaceText = None
    locality: OptionalPlaceText = None

    def __post_init__(self) -> None:
        for field in self.__struct_fields__:
            if getattr(self, field) == "":
                setattr(self, field, None)

    def as_subject(self, common_name: str | None = None) -> CertificateSubject:
        return CertificateSubject(
            common_name=common_name,
            organization=self.organization,
            organizational_unit=self.organizational_unit,
            country=self.country.upper() if self.country else None,
            state=self.state,
            locality=self.locality,
        )

    def check_subject(self) -> None:
        """Raises BadInput if a part does not fit into a certificate."""
        for field in ("organization", "organizational_unit", "state", "locality"):
            check_printable(getattr(self, field), field)


def check_printable(text: str | None, field: str) -> None:
    if text is not None and not (text.isprintable() and text.strip()):
        raise BadInput(field, "printable characters")
