"""The client certificate of a request: that of the connection, or the one that a trusted proxy reports.

For a trusted proxy only the `Client-Cert` header counts, because the certificate of the connection is the proxy's own.
From any other address the header is ignored.
"""

import ipaddress
from collections.abc import Sequence
from functools import lru_cache

from starlette.requests import Request

from restante.identity.clients import client_certificates
from restante.identity.clients.client_certificates import ClientCertificate

HEADER = "client-cert"
# The extension of the ASGI scope that holds the certificate of the connection, if it has one: `{"der": …}`.
EXTENSION = "restante.client_certificate"

Network = ipaddress.IPv4Network | ipaddress.IPv6Network
ADDRESSES_MAX = 65_536


class ClientCertificates:
    def __init__(self, trusted_proxies: Sequence[Network] = ()) -> None:
        self._trusted = tuple(trusted_proxies)
        self.is_trusted = lru_cache(ADDRESSES_MAX)(self._is_trusted)

    def of_request(self, request: Request) -> ClientCertificate | None:
        address = request.client.host if request.client else ""
        values = [value for name, value in request.headers.raw if name == HEADER.encode()]
        der = request.scope.get("extensions", {}).get(EXTENSION, {}).get("der")
        return self.certificate(address, der, values[0] if len(values) == 1 else None)

    def certificate(self, address: str, der: bytes | None, header: bytes | None) -> ClientCertificate | None:
        """The certificate of a request from `address`; `der` is the certificate of its connection."""
        if self._trusted and self.is_trusted(address):
            return client_certificates.from_header(header) if header is not None else None
        return client_certificates.from_der(der) if der is not None else None

    def _is_trusted(self, address: str) -> bool:
        try:
            parsed = ipaddress.ip_address(address)
        except ValueError:
            return False
        # On a dual-stack socket an IPv4 caller has an IPv4-mapped IPv6 address.
        mapped = getattr(parsed, "ipv4_mapped", None)
        return any((mapped or parsed) in network for network in self._trusted)
