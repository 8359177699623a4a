"""The TLS state of one connection, between the bytes of its socket and the bytes of HTTP. It does no I/O.

    socket ─▶ feed ─▶ handshake, records ─▶ read  ─▶ HTTP
    socket ◀─ take ◀───────── records ◀──── write ◀─ HTTP

A failed handshake ends with a TLS alert to the client and one log line. After the alert a few more reads are awaited,
so that a request which the client sent early does not make the kernel discard the alert. A connection that closes
before it sends anything, as of a load balancer's check, is no failure and not logged.

Invariant: what `take` returns is sent before all that is written later. The address of the client is not known here.
"""

import ssl
from typing import Final

import structlog

log = structlog.get_logger()

# Bounds what a client can send after the alert, since nothing reads it.
READS_AFTER_ALERT: Final = 4
# The most that a record holds (RFC 8446, section 5.1): one read returns all that is left of a record.
RECORD_BYTES_MAX: Final = 16_384

_REASONS = {
    "UNSUPPORTED_PROTOCOL": "the client offers no TLS version from 1.2 on",
    "NO_SHARED_CIPHER": "the client offers no cipher that the server accepts",
    "HTTP_REQUEST": "the client sent plain HTTP",
}


class TlsSession:
    __slots__ = ("_has_failed", "_incoming", "_outgoing", "_reads_left", "context", "is_established", "tls")

    def __init__(self, context: ssl.SSLContext) -> None:
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._has_failed = False
        self._reads_left = READS_AFTER_ALERT
        self.context = context
        self.tls = context.wrap_bio(self._incoming, self._outgoing, server_side=True)
        self.is_established = False

    @property
    def has_unread(self) -> bool:
        """Whether `read` may return more. Parts of a record may be unread without that."""
        return self._incoming.pending > 0

    @property
    def has_unsent(self) -> bool:
        return self._outgoing.pending > 0

    def feed(self, data: bytes) -> None:
        """Add bytes that were received."""
        self._incoming.write(data)

    def take(self) -> bytes:
        """The bytes to send now."""
        return self._outgoing.read()

    def read(self) -> bytes | None:
        """The next HTTP bytes. None: more must be received first. Empty: the client has ended the connection, or it
        must be closed."""
        if not self.is_established:
            if self._has_failed:
                self._reads_left -= 1
                return None if self._reads_left > 0 else b""
            try:
                self.tls.do_handshake()
            except ssl.SSLWantReadError:
                return None
            except ssl.SSLError as error:
                return self._fail(error)
            self.is_established = True
        try:
            return self.tls.read(RECORD_BYTES_MAX)
        except ssl.SSLWantReadError:
            return None
        except ssl.SSLError:
            return b""

    def write(self, data: bytes) -> None:
        """Encrypt all of the bytes, for `take`. After an error of the connection they are dropped."""
        try:
            self.tls.write(data)
        except ssl.SSLError as error:
            log.debug("TLS write failed", reason=failure_reason(error))

    def close(self) -> None:
        """Say that nothing more will be written."""
        try:
            self.tls.unwrap()
        except ssl.SSLError:
            # Always: the client has not confirmed it yet, or there is no session to close.
            return

    def _fail(self, error: ssl.SSLError) -> bytes | None:
        log.warning("TLS handshake failed", reason=failure_reason(error))
        self._has_failed = True
        return None if self.has_unsent else b""


def failure_reason(error: ssl.SSLError) -> str:
    """Say for operators why the handshake failed."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"the client's certificate is not accepted: {error.verify_message}"
    reason = error.reason or str(error)
    if "_ALERT_" in reason:
        # For example TLSV1_ALERT_UNKNOWN_CA: the client does not trust the server's certificate.
        return f"the client refuses: {reason.partition('_ALERT_')[2].lower().replace('_', ' ')}"
    return _REASONS.get(reason, reason.lower().replace("_", " "))
