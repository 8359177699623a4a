"""Which certificate a call comes with: the connection's own, or the one a trusted proxy says its caller showed.

From a trusted proxy only the `Client-Cert` header counts, for the connection's certificate is the proxy's. From anybody
else the header is as good as not there.
"""

import ipaddress
from collections.abc import Sequence
from functools import lru_cache

from starlette.requests import Request

from restante.identity import client_certificates
from restante.identity.client_certificates import ClientCertificate

HEADER = "client-cert"
# The ASGI scope's extension that holds the connection's certificate, if it has one: `{"der": …}`.
EXTENSION = "restante.client_certificate"

Network = ipaddress.IPv4Network | ipaddress.IPv6Network
ADDRESSES_MAX = 65_536


class Peers:
    def __init__(self, trusted_proxies: Sequence[Network] = ()) -> None:
        self._trusted = tuple(trusted_proxies)
        self.is_trusted = lru_cache(ADDRESSES_MAX)(self._is_trusted)

    def of_request(self, request: Request) -> ClientCertificate | None:
        address = request.client.host if request.client else ""
        said = [value for name, value in request.headers.raw if name == HEADER.encode()]
        der = request.scope.get("extensions", {}).get(EXTENSION, {}).get("der")
        return self.certificate(address, der, said[0] if len(said) == 1 else None)

    def certificate(self, address: str, der: bytes | None, said: bytes | None) -> ClientCertificate | None:
        """Of a call from that address, over a connection with that certificate, with that header."""
        if self._trusted and self.is_trusted(address):
            return client_certificates.from_header(said) if said is not None else None
        return client_certificates.from_der(der) if der is not None else None

    def _is_trusted(self, address: str) -> bool:
        try:
            found = ipaddress.ip_address(address)
        except ValueError:
            return False
        # An IPv4 caller of a socket that speaks both has an address of IPv6.
        mapped = getattr(found, "ipv4_mapped", None)
        return any((mapped or found) in network for network in self._trusted)
