"""What identity throws away: sessions, codes, refresh families, clients' tokens and signing keys whose time is over."""

from restante.database.connection import Connection
from restante.identity import client_tokens, device_codes, refresh_tokens, registration_codes, sessions, signing_keys


def forget_expired(conn: Connection) -> int:
    """Clear everything that has expired; how many rows there were. Meant to be run now and then."""
    return sum(
        clear(conn)
        for clear in (
            sessions.forget_expired,
            device_codes.forget_expired,
            registration_codes.forget_expired,
            refresh_tokens.forget_expired,
            signing_keys.forget_expired,
            client_tokens.forget_expired,
        )
    )
