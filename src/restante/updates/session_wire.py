"""A device's pair of tokens as it is sent."""

import msgspec

from restante.identity.device_tokens import DeviceTokens


class Session(msgspec.Struct, frozen=True):
    access_token: str
    refresh_token: str
    token_type: str
    expires_in: int


def session_of(tokens: DeviceTokens, user_id: int, device_id: int, refresh_token: str) -> Session:
    """The pair, with a newly signed access token."""
    return Session(tokens.mint(user_id, device_id), refresh_token, "Bearer", tokens.access_token_seconds)
