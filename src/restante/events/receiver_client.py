"""Carries one event to a receiver and brings back its answer: a small HTTP client that does this and nothing else.

Ours and not a library's, for one reason: the connection must go to the very address that was checked. Names are looked
up here, every address a name leads to is judged, and the socket is opened to one of those judged; the name is only what
the certificate must be for. So nobody can answer a harmless address to the check and another one to the connection.

    resolve ─▶ judge every address ─▶ connect to one of them, TLS for the name ─▶ POST ─▶ status, a little of the body

Must always hold: no redirect is followed, no proxy of the environment is used, whatever happens is an `Exchange` within
the time-out, and of the answer no more than a bound is kept.
"""

import asyncio
import socket
import ssl
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from typing import NamedTuple

from httptools import HttpParserError, HttpParserUpgrade, HttpResponseParser

from restante import __version__
from restante.core.addresses import NOTHING_MORE, Allowed, may_be_called
from restante.core.callback_url import CallbackUrl
from restante.core.push_outcome import DELIVERED_STATUS

USER_AGENT = f"Restante/{__version__}"
HEAD_BYTES_MAX = 16 * 1024
# As much as an error body of RFC 8935 can need; what is longer is not read to its end.
BODY_BYTES_MAX = 8 * 1024
READ_BYTES = 16 * 1024
RESOLVERS_MAX = 16

Resolve = Callable[[str, int], Awaitable[list[str]]]


class NotReachable(Exception):
    """There was no answer; the message says why, in words that may be shown to operators."""


class AddressRefused(NotReachable):
    """The host leads to an address that we do not call."""


class Exchange(NamedTuple):
    """What came of it: the answer's status and the beginning of its body, or the problem there was."""

    status: int | None
    body: bytes
    problem: str | None


@dataclass(frozen=True, slots=True)
class ClientOptions:
    timeout_seconds: float = 10.0
    allowed: Allowed = NOTHING_MORE
    # Trusted beside the system's authorities; the certificate shown to receivers that ask for one.
    ca_file: str | None = None
    certificate_file: str | None = None
    key_file: str | None = None


def tls_context(options: ClientOptions) -> ssl.SSLContext:
    """Certificates are verified and must be for the host; TLS 1.2 at least. OSError for files that are not good."""
    context = ssl.create_default_context()
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["http/1.1"])
    try:
        if options.ca_file is not None:
            context.load_verify_locations(options.ca_file)
        if options.certificate_file is not None:
            context.load_cert_chain(options.certificate_file, options.key_file)
    except OSError as error:
        raise OSError(f"push_ca, push_certificate or push_key cannot be used: {_reason(error)}") from error
    return context


class Resolver:
    """Looks names up in threads of its own: a slow name server must not take those of others."""

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(RESOLVERS_MAX, thread_name_prefix="restante-resolver")

    async def __call__(self, host: str, port: int) -> list[str]:
        loop = asyncio.get_running_loop()
        found = await loop.run_in_executor(self._threads, _looked_up, host, port)
        return list(dict.fromkeys(found))

    def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)


def _looked_up(host: str, port: int) -> list[str]:
    return [str(entry[4][0]) for entry in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)]


async def checked_addresses(resolve: Resolve, url: CallbackUrl, allowed: Allowed) -> list[str]:
    """Where the host leads to; AddressRefused if any of it is not to be called."""
    try:
        addresses = await resolve(url.host, url.port)
    except (OSError, UnicodeError) as error:
        raise NotReachable(f"the host {url.host} cannot be resolved: {_reason(error)}") from None
    if not addresses:
        raise NotReachable(f"the host {url.host} has no address")
    refused = [address for address in addresses if not may_be_called(url.host, address, allowed)]
    if refused:
        raise AddressRefused(f"the host {url.host} leads to {refused[0]}, which is not a public address")
    return addresses


class ReceiverClient:
    """Opens connections to receivers. One is used for several events in a row, see `Connection`."""

    def __init__(self, options: ClientOptions, resolve: Resolve | None = None) -> None:
        self.options = options
        self.resolver = Resolver()
        self.resolve = resolve or self.resolver
        # The system's authorities are many: they are read when first needed, unless there is something to check.
        self._tls = tls_context(options) if options.ca_file or options.certificate_file else None

    async def check(self, url: CallbackUrl) -> None:
        """NotReachable, with the reason, if we would not call this address."""
        try:
            async with asyncio.timeout(self.options.timeout_seconds):
                await checked_addresses(self.resolve, url, self.options.allowed)
        except TimeoutError:
            raise NotReachable(f"the host {url.host} is not resolved in time") from None

    async def connect(self, url: CallbackUrl) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """A connection to one of the host's addresses; NotReachable if there is none to be had."""
        if self._tls is None:
            self._tls = tls_context(self.options)
        problem = ""
        for address in await checked_addresses(self.resolve, url, self.options.allowed):
            try:
                return await asyncio.open_connection(
                    address, url.port, ssl=self._tls, server_hostname=url.host, limit=HEAD_BYTES_MAX
                )
            except OSError as error:
                problem = f"{address}: {_reason(error)}"
        raise NotReachable(f"no connection to {url.host}, {problem}")

    def close(self) -> None:
        self.resolver.close()


class ReceiverConnection:
    """One receiver, for as long as it is sent to: connects when needed, and again when the connection has ended."""

    def __init__(self, client: ReceiverClient, url: CallbackUrl) -> None:
        self._client = client
        self._url = url
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def post(self, token: bytes, headers: dict[str, str]) -> Exchange:
        """Send the event; never raises but when it is cancelled."""
        answer = _Answer()
        problem: str | None = None
        try:
            async with asyncio.timeout(self._client.options.timeout_seconds):
                answer = await self._post(_request(self._url, token, headers), answer)
        except TimeoutError:
            problem = f"no answer within {self._client.options.timeout_seconds:g} seconds"
            self.close()
        except (OSError, NotReachable, HttpParserError, HttpParserUpgrade) as error:
            problem = _reason(error)
            self.close()
        except asyncio.CancelledError:
            self.close()
            raise
        # Once it is known what was answered, it does not matter how the rest of it ended.
        if answer.is_headed:
            problem = None if answer.status == DELIVERED_STATUS else f"it answered {answer.status}"
            return Exchange(answer.status, bytes(answer.body), problem)
        return Exchange(None, b"", problem or "the connection ended before an answer")

    async def _post(self, request: bytes, answer: "_Answer") -> "_Answer":
        if self._streams is not None:
            # The receiver may have closed what it kept open so far: that is no failure, if it said nothing yet.
            with suppress(OSError):
                await self._exchange(request, answer)
            if answer.has_begun:
                return answer
            self.close()
        self._streams = await self._client.connect(self._url)
        await self._exchange(request, answer)
        return answer

    async def _exchange(self, request: bytes, answer: "_Answer") -> None:
        assert self._streams is not None  # noqa: S101 — it was connected above
        reader, writer = self._streams
        parser = answer.parser = HttpResponseParser(answer)
        writer.write(request)
        await writer.drain()
        while not answer.is_enough and (data := await reader.read(READ_BYTES)):
            answer.has_begun = True
            answer.count(len(data))
            parser.feed_data(data)
        if not answer.is_kept_alive:
            self.close()

    def close(self) -> None:
        if self._streams is not None:
            # Nothing is waited for: a receiver that does not say good-bye must not hold us.
            self._streams[1].transport.abort()
            self._streams = None


@dataclass(slots=True)
class _Answer:
    """An answer as the parser finds it."""

    parser: HttpResponseParser | None = None
    status: int = 0
    body: bytearray = field(default_factory=bytearray)
    has_begun: bool = False
    is_headed: bool = False
    is_whole: bool = False
    is_enough: bool = False
    is_kept_alive: bool = False
    _bytes: int = 0

    def count(self, more: int) -> None:
        self._bytes += more
        if not self.is_headed and self._bytes > HEAD_BYTES_MAX:
            raise NotReachable("its answer's headers are too long")

    def on_headers_complete(self) -> None:
        assert self.parser is not None  # noqa: S101 — set before anything is fed
        if self.is_whole:
            raise NotReachable("it answered twice")
        self.status = self.parser.get_status_code()
        # 1xx are no answers yet; 101 would be one to a question we did not ask, and is an answer as any other.
        self.is_headed = self.status >= 200 or self.status == 101

    def on_body(self, data: bytes) -> None:
        room = BODY_BYTES_MAX - len(self.body)
        self.body += data[:room]
        if len(data) > room:
            self.is_enough = True

    def on_message_complete(self) -> None:
        if self.is_headed and self.parser is not None:
            self.is_whole = self.is_enough = True
            self.is_kept_alive = self.parser.should_keep_alive()


def _request(url: CallbackUrl, token: bytes, headers: dict[str, str]) -> bytes:
    lines = {
        "host": url.authority,
        "content-type": "application/jwt",
        "accept": "application/json",
        "user-agent": USER_AGENT,
        "content-length": str(len(token)),
        **headers,
    }
    head = "".join(f"{name}: {value}\r\n" for name, value in lines.items())
    return f"POST {url.target} HTTP/1.1\r\n{head}\r\n".encode("ascii") + token


def _reason(error: BaseException) -> str:
    """In words for operators; a failed verification says what was wrong with the certificate."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is not accepted: {error.verify_message}"
    if isinstance(error, ssl.SSLError):
        return f"TLS failed: {error.reason or 'the connection was broken off'}"
    if isinstance(error, HttpParserError | HttpParserUpgrade):
        return "its answer is not HTTP"
    text = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return text or type(error).__name__
