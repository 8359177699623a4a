"""The `WWW-Authenticate` header of refusals (RFC 6750, 3), for all protocols.

    401, no token was sent                 Bearer realm="restante"
    401, the token is not accepted         Bearer realm="restante", error="invalid_token"
    403, the token lacks a scope or role   Bearer realm="restante", error="insufficient_scope", scope="…"

A 401 for another reason (a wrong signature of an ACK, a wrong password) says nothing about a token. A 403 for another
reason has no challenge: another token of the same caller would not help.
"""

from restante.core.errors import InsufficientScope, InvalidToken, NotAuthenticated, RestanteError
from restante.web.response import Headers

_NAME = b"www-authenticate"
_REALM = b'Bearer realm="restante"'
_NO_TOKEN = ((_NAME, _REALM),)
_INVALID_TOKEN = ((_NAME, _REALM + b', error="invalid_token"'),)


def challenge(error: RestanteError) -> Headers:
    """Return the header of this error, or nothing if it has none."""
    match error:
        case InvalidToken():
            return _INVALID_TOKEN
        case NotAuthenticated():
            return _NO_TOKEN
        case InsufficientScope():
            scope = " ".join(error.scopes).encode("ascii")
            return ((_NAME, b'%b, error="insufficient_scope", scope="%b"' % (_REALM, scope)),)
    return ()
