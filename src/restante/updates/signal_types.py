"""The types of the signals that the server itself emits. Applications may send signals of any other type.

docs/device-updates.md describes the `ref` of each type and what a device does with it.
"""

from restante.database.connection import Connection
from restante.delivery.log.signals import Emit, Signal

INSTALL_UPDATED = "install.updated"  # the device's install config has a new version
CERT_RENEWED = "cert.renewed"  # a certificate of the device was issued again; its key is not wrapped yet
CERT_WRAP_READY = "cert.wrap_ready"  # the certificate's key is wrapped for the device: it can fetch the bundle
CERT_REVOKED = "cert.revoked"  # the certificate was revoked or unassigned from the device
CERT_UPDATED = "cert.updated"  # alias, sent after cert.wrap_ready: the bundle can be fetched
CERT_UNASSIGNED = "cert.unassigned"  # alias, sent after cert.revoked
CA_ASSIGNED = "ca.assigned"  # the device must trust this certificate authority
CA_UNASSIGNED = "ca.unassigned"  # the device must no longer trust this certificate authority

# Newer agents act on these and ignore the signals that they follow.
ALIASES = frozenset([CERT_UPDATED, CERT_UNASSIGNED])


def without_aliases(emit: Emit) -> Emit:
    """Sends every signal but the aliases."""

    def emit_unless_alias(conn: Connection, device_id: int, signal: Signal) -> None:
        if signal.type not in ALIASES:
            emit(conn, device_id, signal)

    return emit_unless_alias
