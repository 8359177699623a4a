"""Raw connections to a server that speaks TLS, with and without a client's certificate."""

import socket
import ssl
from typing import Any

from tests.pki import CertificateFiles, pki
from tests.server.live_server import TIMEOUT_SECONDS, RawConnection

SETTINGS: dict[str, Any] = {
    "tls_certificate": pki().server.certificate,
    "tls_key": pki().server.key,
    "tls_client_ca": pki().authority.certificate,
}


class TlsConnection(RawConnection):
    def __init__(
        self,
        port: int,
        certificate: CertificateFiles | None = None,
        *,
        trusting: CertificateFiles | None = None,
        version: ssl.TLSVersion | None = None,
    ) -> None:
        context = ssl.create_default_context(cafile=(trusting or pki().authority).certificate)
        if certificate is not None:
            context.load_cert_chain(certificate.certificate, certificate.key)
        if version is not None:
            context.minimum_version = context.maximum_version = version
        raw = socket.create_connection(("127.0.0.1", port), timeout=TIMEOUT_SECONDS)
        raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.socket = context.wrap_socket(raw, server_hostname="localhost")
        self._unread = b""


def post(path: str, body: bytes, *lines: str, media_type: str = "application/json") -> bytes:
    head = [f"POST {path} HTTP/1.1", "Host: localhost", f"Content-Type: {media_type}", f"Content-Length: {len(body)}"]
    return "\r\n".join([*head, *lines, "", ""]).encode() + body
