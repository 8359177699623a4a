"""Checks a callback URL before it is stored: its syntax, and the addresses that its host resolves to.

The response does not say why a host was refused; otherwise a client could probe names in the server's network.
"""

import structlog

from restante.core.errors import BadInput
from restante.core.events.callback_url import CALLBACK_URL_EXPECTED, CallbackUrl, parse_callback_url
from restante.events.outgoing_http import NotReachable, OutgoingClient

log = structlog.get_logger()


async def check_callback(client: OutgoingClient, text: str, field: str) -> CallbackUrl:
    """Return the parts of the URL; raise BadInput for the field if the server would not connect to it."""
    try:
        url = parse_callback_url(text)
    except ValueError:
        raise BadInput(field, CALLBACK_URL_EXPECTED) from None
    try:
        await client.check(url)
    except NotReachable as error:
        log.info("callback URL refused", reason=str(error))
        raise BadInput(field, "an address whose host can be resolved, to public addresses only") from None
    return url
