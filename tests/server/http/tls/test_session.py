"""The reasons of failed handshakes. Whole handshakes are in test_listening_server."""

import ssl

import pytest
from structlog.testing import capture_logs

from restante.server.http.tls.files import CIPHERS
from restante.server.http.tls.session import TlsSession, failure_reason
from tests.pki import pki


def fail_handshake(hello: bytes) -> tuple[list[str], bytes]:
    """Give the server these bytes; return the logged reasons, and what it has sent to the client."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.set_ciphers(CIPHERS)
    context.load_cert_chain(pki().server.certificate, pki().server.key)
    session = TlsSession(context)
    session.feed(hello)
    with capture_logs() as logs:
        while session.read() is None:
            session.feed(b"more")
    return [entry["reason"] for entry in logs], session.take()


def hello_with_ciphers(ciphers: str) -> bytes:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    context.set_ciphers(ciphers)
    outgoing = ssl.MemoryBIO()
    with pytest.raises(ssl.SSLWantReadError):
        context.wrap_bio(ssl.MemoryBIO(), outgoing).do_handshake()
    return outgoing.read()


@pytest.mark.parametrize(
    ("hello", "reason", "alert"),
    [
        (b"GET / HTTP/1.1\r\n\r\n", "the client sent plain HTTP", b""),
        (hello_with_ciphers("AES128-SHA"), "the client offers no cipher that the server accepts", b"\x28"),
        (b"nonsense" * 10, "wrong version number", b""),
    ],
)
def test_reason_is_named_and_alert_is_sent(hello: bytes, reason: str, alert: bytes) -> None:
    reasons, sent = fail_handshake(hello)
    assert reasons == [reason]
    # An alert is a record of type 21 whose last byte says what is wrong.
    assert (sent[:1], sent[-1:]) == (b"\x15" if alert else b"", alert)


def test_error_without_a_reason_is_shown_as_it_is() -> None:
    error = ssl.SSLError(1, "something else")
    error.reason = ""
    assert failure_reason(error) == "something else"
