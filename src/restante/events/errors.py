"""The errors of events, and the code that each error has in a response.

    RestanteError
    ├── BadInput         InvalidHeader         400  UK.OBIE.Header.Invalid
    │                    MissingHeader         400  UK.OBIE.Header.Missing
    │                    ExpectedField         400  UK.OBIE.Field.Expected
    │                    UnsupportedEventType  400  UK.OBIE.Unsupported.EventType
    │                    MissingField, UnknownField, others  UK.OBIE.Field.Missing, .Unexpected, .Invalid
    │                    SignatureError        400  UK.OBIE.Signature.…, see `signing/message_signatures`
    ├── NotAcceptable                          406  UK.OBIE.Header.Invalid
    └── Conflict         AlreadyExists         409  UK.OBIE.Rules.ResourceAlreadyExists

An error without a code of its own has the code of its status.
"""

from typing import ClassVar

from restante.core.errors import BadInput, Conflict, MissingField, RestanteError, UnknownField

_CODES = {
    403: "UK.OBIE.Reauthenticate",
    404: "UK.OBIE.Resource.NotFound",
    406: "UK.OBIE.Header.Invalid",
    409: "UK.OBIE.Rules.ResourceAlreadyExists",
    413: "UK.OBIE.Resource.InvalidFormat",
    415: "UK.OBIE.Header.Invalid",
    422: "UK.OBIE.Header.Invalid",
}
_NAMESPACE = "UK.OBIE."
_UNEXPECTED = "UK.OBIE.UnexpectedError"

# The codes of version 4.0, by the code of version 3.1 after its namespace.
SHORT_CODES = {
    "UnexpectedError": "U000",
    "Field.Expected": "U001",
    "Field.Invalid": "U002",
    "Field.InvalidDate": "U003",
    "Field.Missing": "U004",
    "Field.Unexpected": "U005",
    "Header.Invalid": "U006",
    "Header.Missing": "U007",
    "Resource.ConsentMismatch": "U008",
    "Resource.InvalidConsentStatus": "U009",
    "Resource.InvalidFormat": "U010",
    "Resource.NotFound": "U011",
    "Signature.Invalid": "U015",
    "Signature.InvalidClaim": "U016",
    "Signature.MissingClaim": "U017",
    "Signature.Malformed": "U018",
    "Signature.Missing": "U019",
    "Signature.Unexpected": "U020",
    "Unsupported.EventType": "U024",
    "Reauthenticate": "U028",
    "Rules.ResourceAlreadyExists": "U029",
}


class InvalidHeader(BadInput):
    """A header has an invalid value."""

    code: ClassVar[str] = "UK.OBIE.Header.Invalid"


class MissingHeader(BadInput):
    """A required header is missing."""

    code: ClassVar[str] = "UK.OBIE.Header.Missing"


class ExpectedField(BadInput):
    """A field is required because of the value of another field."""

    code: ClassVar[str] = "UK.OBIE.Field.Expected"


class UnsupportedEventType(BadInput):
    """The event type is not supported."""

    code: ClassVar[str] = "UK.OBIE.Unsupported.EventType"


class SignatureError(BadInput):
    """The `x-jws-signature` of a request is refused."""

    code: ClassVar[str] = "UK.OBIE.Signature.Invalid"

    def __init__(self, expected: str) -> None:
        super().__init__("x-jws-signature", expected)


class InvalidClaim(SignatureError):
    """A member of the signature's header has a wrong value."""

    code: ClassVar[str] = "UK.OBIE.Signature.InvalidClaim"


class MissingClaim(SignatureError):
    """A required member of the signature's header is missing."""

    code: ClassVar[str] = "UK.OBIE.Signature.MissingClaim"


class MalformedSignature(SignatureError):
    """The signature is not a detached JWS."""

    code: ClassVar[str] = "UK.OBIE.Signature.Malformed"


class MissingSignature(SignatureError):
    """The request has no signature."""

    code: ClassVar[str] = "UK.OBIE.Signature.Missing"


class AlreadyExists(Conflict):
    """The resource already exists."""

    code: ClassVar[str] = "UK.OBIE.Rules.ResourceAlreadyExists"


class NotAcceptable(RestanteError):
    """The response is application/json, which the Accept header does not allow."""

    status = 406


def error_code(error: RestanteError) -> str:
    own: str | None = getattr(error, "code", None)
    if own is not None and own.startswith(_NAMESPACE):
        return own
    match error:
        case MissingField():
            return "UK.OBIE.Field.Missing"
        case UnknownField():
            return "UK.OBIE.Field.Unexpected"
        case BadInput(field="body"):
            return "UK.OBIE.Resource.InvalidFormat"
        case BadInput():
            return "UK.OBIE.Field.Invalid"
        case _:
            return _CODES.get(error.status, _UNEXPECTED)


def short_error_code(error: RestanteError) -> str:
    """Return the code of version 4.0."""
    return SHORT_CODES[error_code(error).removeprefix(_NAMESPACE)]
