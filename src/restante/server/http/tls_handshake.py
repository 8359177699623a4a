"""The TLS handshake of one connection: a failure ends with a TLS alert to the client and one log line.

    OpenSSL fails ─▶ log the reason ─▶ "more data needed": the event loop sends the alert ─▶ the client closes
                                                        └─ more data arrives, or the time is over ─▶ the loop closes

The event loop drops what OpenSSL has written when a handshake fails, so the client would see an unexpected end and
never learn the reason. Therefore the failure is first reported as "more data needed", which makes the loop send what
OpenSSL has written: the alert. After the alert, a few more reads are awaited, so that a request which the client sent
early does not make the kernel discard the alert.

A connection that closes before it sends anything, as of a load balancer's check, is no failure and not logged. The
address of the client is not known here.
"""

import ssl
from typing import Final

import structlog

log = structlog.get_logger()

# Bounds what a client can send after the alert, since nothing reads it.
READS_AFTER_ALERT: Final = 4

_REASONS = {
    "UNSUPPORTED_PROTOCOL": "the client offers no TLS version from 1.2 on",
    "NO_SHARED_CIPHER": "the client offers no cipher that the server accepts",
    "HTTP_REQUEST": "the client sent plain HTTP",
}


class Handshake(ssl.SSLObject):
    """The TLS state of a connection. `outgoing` holds what OpenSSL has written and the loop has not sent."""

    outgoing: ssl.MemoryBIO
    _failure: ssl.SSLError | None = None
    _reads_left = READS_AFTER_ALERT

    def do_handshake(self) -> None:
        if self._failure is None:
            try:
                super().do_handshake()
                return
            except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
                raise
            except ssl.SSLError as error:
                self._failure = error
                log.warning("TLS handshake failed", reason=failure_reason(error))
                if not self.outgoing.pending:
                    raise
        elif self._reads_left == 0:
            raise self._failure
        self._reads_left -= 1
        raise ssl.SSLWantReadError


class ServerContext(ssl.SSLContext):
    """A context whose connections report failed handshakes."""

    sslobject_class = Handshake

    def wrap_bio(
        self,
        incoming: ssl.MemoryBIO,
        outgoing: ssl.MemoryBIO,
        server_side: bool = True,
        server_hostname: str | bytes | None = None,
        session: ssl.SSLSession | None = None,
    ) -> Handshake:
        handshake = super().wrap_bio(incoming, outgoing, server_side, server_hostname, session)
        assert isinstance(handshake, Handshake)  # noqa: S101 — made by sslobject_class
        handshake.outgoing = outgoing
        return handshake


def failure_reason(error: ssl.SSLError) -> str:
    """Say for operators why the handshake failed."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"the client's certificate is not accepted: {error.verify_message}"
    reason = error.reason or str(error)
    if "_ALERT_" in reason:
        # For example TLSV1_ALERT_UNKNOWN_CA: the client does not trust the server's certificate.
        return f"the client refuses: {reason.partition('_ALERT_')[2].lower().replace('_', ' ')}"
    return _REASONS.get(reason, reason.lower().replace("_", " "))
