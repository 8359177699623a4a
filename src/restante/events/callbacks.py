"""Addresses that a client wants to be called at, looked at before they are kept: how they are written, and where their
host leads. What is said to the client of the latter is no more than that it will not do: it is no way to ask us about
names in our own network."""

import structlog

from restante.core.callback_url import EXPECTED, CallbackUrl, parse_callback_url
from restante.core.errors import BadInput
from restante.events.receiver_client import NotReachable, ReceiverClient

log = structlog.get_logger()


async def check_callback(client: ReceiverClient, text: str, field: str) -> CallbackUrl:
    """The address in its parts; BadInput naming the field if we would not call it."""
    try:
        url = parse_callback_url(text)
    except ValueError:
        raise BadInput(field, EXPECTED) from None
    try:
        await client.check(url)
    except NotReachable as error:
        log.info("a callback address was refused", reason=str(error))
        raise BadInput(field, "an address whose host can be resolved, to public addresses only") from None
    return url
