"""A connection to one receiver: posts one event after another, and returns each result.

Invariant: every outcome is a `PushResult` within the timeout.
"""

import asyncio
from contextlib import suppress

from httptools import HttpParserError, HttpParserUpgrade

from restante.core.events.callback_url import CallbackUrl
from restante.core.events.push_outcome import DELIVERED_STATUS, PushResult
from restante.events.outgoing_http import (
    NotReachable,
    OutgoingClient,
    Response,
    exchange,
    reason_of,
    request_bytes,
)

# Enough for an error body of RFC 8935; a longer body is not read to its end.
BODY_BYTES_MAX = 8 * 1024


class ReceiverConnection:
    """A connection to one receiver, kept for several events: connects on demand, and again after it was closed."""

    def __init__(self, client: OutgoingClient, url: CallbackUrl) -> None:
        self._client = client
        self._url = url
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def post(self, token: bytes, headers: dict[str, str]) -> PushResult:
        """Send the event; `headers` include its content type. Raises nothing except when it is cancelled."""
        response = Response(BODY_BYTES_MAX)
        problem: str | None = None
        try:
            async with asyncio.timeout(self._client.options.timeout_seconds):
                response = await self._post(self._request(token, headers), response)
        except TimeoutError:
            problem = f"no response within {self._client.options.timeout_seconds:g} seconds"
            self.close()
        except (OSError, NotReachable, HttpParserError, HttpParserUpgrade) as error:
            problem = reason_of(error)
            self.close()
        except asyncio.CancelledError:
            self.close()
            raise
        # A complete response head decides the result, whatever happened to the body.
        if response.has_head:
            problem = None if response.status == DELIVERED_STATUS else f"response status {response.status}"
            return PushResult(response.status, problem, bytes(response.body))
        return PushResult(None, problem or "the connection closed before a response")

    async def _post(self, request: bytes, response: Response) -> Response:
        if self._streams is not None:
            # The receiver may have closed an idle connection: not a failure, if it sent nothing yet.
            with suppress(OSError):
                await self._send_and_read(request, response)
            if response.has_begun:
                return response
            self.close()
        self._streams = await self._client.connect(self._url)
        await self._send_and_read(request, response)
        return response

    async def _send_and_read(self, request: bytes, response: Response) -> None:
        assert self._streams is not None  # noqa: S101 — the caller connected
        await exchange(self._streams, request, response)
        if not response.is_keep_alive:
            self.close()

    def _request(self, token: bytes, headers: dict[str, str]) -> bytes:
        return request_bytes("POST", self._url, {"content-length": str(len(token)), **headers}, token)

    def close(self) -> None:
        if self._streams is not None:
            # Abort without waiting for the TLS closing handshake of the receiver.
            self._streams[1].transport.abort()
            self._streams = None
