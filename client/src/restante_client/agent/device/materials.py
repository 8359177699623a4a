"""The files of a certificate and of an authority, made from what the server sends, checked before they are used.

A private key must belong to its certificate, and an authority must be one. The cryptography takes more memory than the
rest of the agent, and a certificate comes once in weeks. So `in_child` does this work in a child process, which
gets its input by a pipe.
"""

from __future__ import annotations

import base64
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Optional

import msgspec

from restante_client.agent.times import rfc3339
from restante_client.device.models import AuthorityBundle, CertificateBundle
from restante_client.errors import VerificationFailed

if TYPE_CHECKING:
    from cryptography import x509

CHILD_SECONDS = 60.0
SECRET_FILES = frozenset(["private.key", "bundle.pfx"])


class CertificateRequest(msgspec.Struct, frozen=True, tag="certificate"):
    id: int
    bundle: CertificateBundle
    device_key: bytes
    pfx_password: Optional[bytes]

    def __repr__(self) -> str:
        return f"CertificateRequest({self.id})"


class AuthorityRequest(msgspec.Struct, frozen=True, tag="authority"):
    id: int
    bundle: AuthorityBundle


class Materials(msgspec.Struct, frozen=True):
    """Files by name, and the SHA-256 fingerprint of the certificate. `error` is set if something is wrong."""

    files: dict[str, bytes] = {}
    fingerprint: str = ""
    serial: str = ""
    error: str = ""

    def __repr__(self) -> str:
        return f"Materials({self.fingerprint})"


def in_child(request: CertificateRequest | AuthorityRequest) -> Materials:
    """Make the files in a child process, or raise `VerificationFailed`."""
    package = Path(__file__).parents[3]
    try:
        done = subprocess.run(  # noqa: S603
            [sys.executable, "-m", __name__],
            input=msgspec.msgpack.encode(request),
            stdout=subprocess.PIPE,
            timeout=CHILD_SECONDS,
            env={**os.environ, "PYTHONPATH": str(package)},
            cwd="/",
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise OSError(f"the process that opens bundles did not end within {CHILD_SECONDS:g} s") from None
    if done.returncode != 0:
        raise OSError(f"the process that opens bundles ended with {done.returncode}")
    made = msgspec.msgpack.decode(done.stdout, type=Materials)
    if made.error:
        raise VerificationFailed(made.error)
    return made


def make(request: CertificateRequest | AuthorityRequest) -> Materials:
    if isinstance(request, CertificateRequest):
        return _certificate(request)
    return _authority(request)


def _certificate(request: CertificateRequest) -> Materials:
    from cryptography import x509
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.serialization import pkcs12
    from nacl.public import PrivateKey

    from restante_client.device.bundles import open_bundle

    opened = open_bundle(request.bundle, PrivateKey(request.device_key))
    try:
        leaf = x509.load_pem_x509_certificate(opened.certificate_pem.encode())
        chain = x509.load_pem_x509_certificates(opened.chain_pem.encode()) if opened.chain_pem.strip() else []
        key: Any = serialization.load_der_private_key(opened.private_key_der, None)
    except ValueError as error:
        raise VerificationFailed(f"the certificate, its chain or its key cannot be read: {error}") from None
    if _public_bytes(key.public_key()) != _public_bytes(leaf.public_key()):
        raise VerificationFailed("the private key does not belong to the certificate")
    encryption: Any = serialization.NoEncryption()
    if request.pfx_password:
        encryption = serialization.BestAvailableEncryption(request.pfx_password)
    files = {
        "private.key": opened.private_key_pem,
        "certificate.pem": opened.certificate_pem.encode(),
        "chain.pem": opened.chain_pem.encode(),
        "fullchain.pem": opened.fullchain_pem.encode(),
        "certificate.der": leaf.public_bytes(serialization.Encoding.DER),
        "bundle.pfx": pkcs12.serialize_key_and_certificates(opened.domain_name.encode(), key, leaf, chain, encryption),
    }
    fingerprint = _fingerprint(leaf)
    meta = {"cert_id": request.id, "domain_name": opened.domain_name, "serial": opened.serial, **_validity(leaf)}
    return Materials({**files, "meta.json": _meta(meta, fingerprint)}, fingerprint, opened.serial)


def _authority(request: AuthorityRequest) -> Materials:
    from cryptography import x509
    from cryptography.hazmat.primitives import serialization

    bundle = request.bundle
    try:
        authority = x509.load_pem_x509_certificate(bundle.ca_certificate_pem.encode())
        constraints = authority.extensions.get_extension_for_class(x509.BasicConstraints).value
    except (ValueError, x509.ExtensionNotFound) as error:
        raise VerificationFailed(f"the certificate of the authority cannot be used: {error}") from None
    der = authority.public_bytes(serialization.Encoding.DER)
    if not constraints.ca:
        raise VerificationFailed("the certificate is not one of an authority")
    if bundle.ca_certificate_der_b64 and base64.b64decode(bundle.ca_certificate_der_b64) != der:
        raise VerificationFailed("the PEM and the DER of the authority differ")
    # Only the one certificate that was checked, whatever else the text holds.
    pem = authority.public_bytes(serialization.Encoding.PEM)
    fingerprint = _fingerprint(authority)
    meta = {"ca_id": request.id, "name": bundle.name, "serial": bundle.serial_number, **_validity(authority)}
    files = {"ca.pem": pem, "ca.der": der, "meta.json": _meta(meta, fingerprint)}
    return Materials(files, fingerprint, bundle.serial_number)


def _public_bytes(key: Any) -> bytes:
    from cryptography.hazmat.primitives import serialization

    found: bytes = key.public_bytes(serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo)
    return found


def _fingerprint(certificate: x509.Certificate) -> str:
    from cryptography.hazmat.primitives import hashes

    return certificate.fingerprint(hashes.SHA256()).hex()


def _validity(certificate: x509.Certificate) -> dict[str, str]:
    return {
        "not_before": rfc3339(certificate.not_valid_before_utc),
        "not_after": rfc3339(certificate.not_valid_after_utc),
    }


def _meta(fields: dict[str, Any], fingerprint: str) -> bytes:
    return json.dumps({**fields, "fingerprint_sha256": fingerprint}, ensure_ascii=False, indent=1).encode() + b"\n"


def main() -> None:
    """The child: a request on stdin, materials on stdout."""
    from typing import Union

    request = msgspec.msgpack.decode(sys.stdin.buffer.read(), type=Union[CertificateRequest, AuthorityRequest])
    try:
        made = make(request)
    except VerificationFailed as error:
        made = Materials(error=str(error))
    sys.stdout.buffer.write(msgspec.msgpack.encode(made))


if __name__ == "__main__":
    main()
