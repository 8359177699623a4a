"""A refused access token of an event client, with the details for operators.

The response says no more than before: a stranger may have sent the token. `client_id` is set only if the token proves
whose it is: it is stored here, or its signature was verified.
"""

from typing import Literal, NamedTuple

from restante.core.errors import InvalidToken

# token: unknown, malformed, ended, or not verified.
TokenRefusal = Literal["token", "token_expired", "token_certificate", "token_scope", "suspended"]


class RefusedToken(InvalidToken):
    """The access token is not accepted."""

    def __init__(self, message: str, reason: TokenRefusal, client_id: str | None = None) -> None:
        super().__init__(message)
        self.reason = reason
        self.client_id = client_id


class ClientRefusal(NamedTuple):
    """A refused request with an access token. `client_id` is None if the token does not prove whose it is."""

    client_id: str | None
    reason: TokenRefusal
    detail: str
    address: str


def refusal_of(error: InvalidToken, address: str) -> ClientRefusal:
    if isinstance(error, RefusedToken):
        return ClientRefusal(error.client_id, error.reason, error.message, address)
    return ClientRefusal(None, "token", error.message, address)
