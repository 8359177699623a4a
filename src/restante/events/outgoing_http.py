"""A minimal HTTP client for hosts that a client chose: receivers of pushed events, and documents with public keys.

It replaces an HTTP library for one reason: the connection must go to exactly the address that was checked. The client
resolves the host, checks every address, and connects to one of the checked addresses; the host name is used only to
verify the certificate. So DNS rebinding cannot show a public address to the check and another one to the connection.

    resolve ─▶ check every address ─▶ connect to one, TLS for the host name ─▶ request ─▶ status, start of the body

Invariants:
- No redirect is followed, and no proxy from the environment is used.
- Every request ends within the timeout.
- A bounded part of the response is kept.
"""

import asyncio
import socket
import ssl
from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from httptools import HttpParserError, HttpParserUpgrade, HttpResponseParser

from restante import __version__
from restante.core.events.addresses import AllowedTargets, may_connect
from restante.core.events.callback_url import CallbackUrl

USER_AGENT = f"Restante/{__version__}"
HEAD_BYTES_MAX = 16 * 1024
READ_BYTES = 16 * 1024
RESOLVERS_MAX = 16

Resolve = Callable[[str, int], Awaitable[list[str]]]


class NotReachable(Exception):
    """There was no usable response; the message says why, and operators may see it."""


class AddressRefused(NotReachable):
    """The host resolves to an address that is not allowed."""


@dataclass(frozen=True, slots=True)
class OutgoingOptions:
    timeout_seconds: float
    allowed: AllowedTargets
    # An authority trusted in addition to the system's, and the client certificate for receivers that request one.
    ca_file: str | None
    certificate_file: str | None
    key_file: str | None


def tls_context(options: OutgoingOptions) -> ssl.SSLContext:
    """Return a context that verifies certificate and host name, TLS 1.2 or later. Raise OSError for unusable files."""
    context = ssl.create_default_context()
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["http/1.1"])
    try:
        if options.ca_file is not None:
            context.load_verify_locations(options.ca_file)
        if options.certificate_file is not None:
            context.load_cert_chain(options.certificate_file, options.key_file)
    except OSError as error:
        raise OSError(f"push_ca, push_certificate or push_key cannot be used: {reason_of(error)}") from error
    return context


class Resolver:
    """Resolves names in its own threads, so that a slow name server does not block other work."""

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(RESOLVERS_MAX, thread_name_prefix="restante-resolver")

    async def __call__(self, host: str, port: int) -> list[str]:
        loop = asyncio.get_running_loop()
        addresses = await loop.run_in_executor(self._threads, _look_up, host, port)
        return list(dict.fromkeys(addresses))

    def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)


def _look_up(host: str, port: int) -> list[str]:
    return [str(entry[4][0]) for entry in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)]


async def checked_addresses(resolve: Resolve, url: CallbackUrl, allowed: AllowedTargets) -> list[str]:
    """Resolve the host; raise AddressRefused if any of its addresses is not allowed."""
    try:
        addresses = await resolve(url.host, url.port)
    except (OSError, UnicodeError) as error:
        raise NotReachable(f"the host {url.host} cannot be resolved: {reason_of(error)}") from None
    if not addresses:
        raise NotReachable(f"the host {url.host} has no address")
    refused = [address for address in addresses if not may_connect(url.host, address, allowed)]
    if refused:
        raise AddressRefused(f"the host {url.host} resolves to {refused[0]}, which is not a public address")
    return addresses


class OutgoingClient:
    """Opens connections to checked addresses, and gets small documents. `ReceiverConnection` reuses a connection."""

    def __init__(self, options: OutgoingOptions, resolve: Resolve | None = None) -> None:
        self.options = options
        self.resolver = Resolver()
        self.resolve = resolve or self.resolver
        # Loading the system's authorities is slow: done on first use, unless configured files must be checked now.
        self._tls = tls_context(options) if options.ca_file or options.certificate_file else None

    async def check(self, url: CallbackUrl) -> None:
        """Raise NotReachable, with the reason, if the host cannot be resolved or is not allowed."""
        try:
            async with asyncio.timeout(self.options.timeout_seconds):
                await checked_addresses(self.resolve, url, self.options.allowed)
        except TimeoutError:
            raise NotReachable(f"resolving the host {url.host} timed out") from None

    async def connect(self, url: CallbackUrl) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Connect to one of the host's addresses; raise NotReachable if none accepts."""
        if self._tls is None:
            self._tls = tls_context(self.options)
        problem = ""
        for address in await checked_addresses(self.resolve, url, self.options.allowed):
            try:
                return await asyncio.open_connection(
                    address, url.port, ssl=self._tls, server_hostname=url.host, limit=HEAD_BYTES_MAX
                )
            except OSError as error:
                problem = f"{address}: {reason_of(error)}"
        raise NotReachable(f"no connection to {url.host}, {problem}")

    async def get(self, url: CallbackUrl, body_bytes_max: int) -> bytes:
        """The body of a 200 response; raise NotReachable, with the reason, for anything else."""
        request = request_bytes("GET", url, {"connection": "close"})
        response = Response(body_bytes_max)
        try:
            async with asyncio.timeout(self.options.timeout_seconds):
                streams = await self.connect(url)
                try:
                    await exchange(streams, request, response)
                finally:
                    streams[1].transport.abort()
        except TimeoutError:
            raise NotReachable(f"no response within {self.options.timeout_seconds:g} seconds") from None
        except (OSError, HttpParserError, HttpParserUpgrade) as error:
            raise NotReachable(reason_of(error)) from None
        if response.status != 200:
            raise NotReachable(f"response status {response.status}")
        if response.is_cut:
            raise NotReachable(f"the document is larger than {body_bytes_max} bytes")
        if not response.is_complete:
            raise NotReachable("the connection closed before the end of the response")
        return bytes(response.body)

    def close(self) -> None:
        self.resolver.close()


@dataclass(slots=True)
class Response:
    """A response, filled by callbacks of the parser. `is_cut`: its body is longer than `body_bytes_max`."""

    body_bytes_max: int
    parser: HttpResponseParser | None = None
    status: int = 0
    body: bytearray = field(default_factory=bytearray)
    has_begun: bool = False
    has_head: bool = False
    is_complete: bool = False
    is_cut: bool = False
    is_done: bool = False
    is_keep_alive: bool = False
    _bytes: int = 0

    def count(self, more: int) -> None:
        self._bytes += more
        if not self.has_head and self._bytes > HEAD_BYTES_MAX:
            raise NotReachable("the response headers are too long")

    def on_headers_complete(self) -> None:
        assert self.parser is not None  # noqa: S101 — set before data is parsed
        if self.is_complete:
            raise NotReachable("the host sent two responses")
        self.status = self.parser.get_status_code()
        # 1xx are interim responses, except 101: no upgrade was requested, so it counts as a final response.
        self.has_head = self.status >= 200 or self.status == 101

    def on_body(self, data: bytes) -> None:
        room = self.body_bytes_max - len(self.body)
        self.body += data[:room]
        if len(data) > room:
            self.is_cut = self.is_done = True

    def on_message_complete(self) -> None:
        if self.has_head and self.parser is not None:
            self.is_complete = self.is_done = True
            self.is_keep_alive = self.parser.should_keep_alive()


async def exchange(
    streams: tuple[asyncio.StreamReader, asyncio.StreamWriter], request: bytes, response: Response
) -> None:
    """Send the request, and read the response until it is complete, too long, or the connection ends."""
    reader, writer = streams
    parser = response.parser = HttpResponseParser(response)
    writer.write(request)
    await writer.drain()
    while not response.is_done and (data := await reader.read(READ_BYTES)):
        response.has_begun = True
        response.count(len(data))
        parser.feed_data(data)


def request_bytes(method: str, url: CallbackUrl, headers: Mapping[str, str], body: bytes = b"") -> bytes:
    lines = {"host": url.authority, "accept": "application/json", "user-agent": USER_AGENT, **headers}
    head = "".join(f"{name}: {value}\r\n" for name, value in lines.items())
    return f"{method} {url.target} HTTP/1.1\r\n{head}\r\n".encode("ascii") + body


def reason_of(error: BaseException) -> str:
    """Describe the error for operators; for a certificate, say what is wrong with it."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"the certificate is not accepted: {error.verify_message}"
    if isinstance(error, ssl.SSLError):
        return f"TLS failed: {error.reason or 'the connection was aborted'}"
    if isinstance(error, HttpParserError | HttpParserUpgrade):
        return "the response is not HTTP"
    text = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return text or type(error).__name__
