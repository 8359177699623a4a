import pytest

from restante.core.errors import (
    BadInput,
    InsufficientScope,
    InvalidToken,
    NotAllowed,
    NotAuthenticated,
    NotFound,
    RestanteError,
)
from restante.web.errors.challenges import challenge


@pytest.mark.parametrize(
    ("error", "value"),
    [
        (NotAuthenticated(), b'Bearer realm="restante"'),
        (InvalidToken(), b'Bearer realm="restante", error="invalid_token"'),
        (
            InsufficientScope("no", ["ssf.read", "ssf.manage"]),
            b'Bearer realm="restante", error="insufficient_scope", scope="ssf.read ssf.manage"',
        ),
    ],
)
def test_refusal_has_the_challenge_of_rfc_6750(error: RestanteError, value: bytes) -> None:
    assert challenge(error) == ((b"www-authenticate", value),)


@pytest.mark.parametrize("error", [NotAllowed(), NotFound(), BadInput("a", "b"), RestanteError()])
def test_other_errors_have_no_challenge(error: RestanteError) -> None:
    assert challenge(error) == ()
