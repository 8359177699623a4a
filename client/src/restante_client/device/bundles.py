"""Opening a certificate bundle: the data key is sealed to the device and encrypts the private key."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
from dataclasses import dataclass, field

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from nacl.exceptions import CryptoError
from nacl.public import PrivateKey, SealedBox

from restante_client.device.models import CertificateBundle
from restante_client.errors import VerificationFailed

WRAP_ALGORITHM = "x25519"
KEY_ENCRYPTION = "aes256gcm"


@dataclass(frozen=True)
class OpenedBundle:
    """A certificate and its private key. The key is not shown by `repr`."""

    domain_name: str
    serial: str
    certificate_pem: str
    chain_pem: str
    fullchain_pem: str
    private_key_der: bytes = field(repr=False)

    @property
    def private_key_pem(self) -> bytes:
        """The private key as PKCS #8 in PEM, not encrypted."""
        key = serialization.load_der_private_key(self.private_key_der, None)
        return key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )


def key_fingerprint(public_key: bytes) -> bytes:
    return hashlib.blake2b(public_key, digest_size=32).digest()


def open_bundle(bundle: CertificateBundle, device_key: PrivateKey) -> OpenedBundle:
    """Decrypt the private key of a bundle, or raise `VerificationFailed`."""
    if bundle.wrap_alg != WRAP_ALGORITHM or bundle.enc_scheme != KEY_ENCRYPTION:
        raise VerificationFailed(f"the bundle uses {bundle.wrap_alg} and {bundle.enc_scheme}, which are not supported")
    try:
        fingerprint = base64.b64decode(bundle.device_keyfp_b64)
        if not hmac.compare_digest(fingerprint, key_fingerprint(bytes(device_key.public_key))):
            raise VerificationFailed("the bundle is wrapped for another device key; register the device again")
        data_key = SealedBox(device_key).decrypt(base64.b64decode(bundle.enc_data_key_b64))
        encrypted = base64.b64decode(bundle.enc_privkey_b64) + base64.b64decode(bundle.privkey_tag_b64)
        private_key = AESGCM(data_key).decrypt(base64.b64decode(bundle.privkey_nonce_b64), encrypted, None)
    except (binascii.Error, CryptoError, InvalidTag, ValueError) as error:
        raise VerificationFailed(f"the bundle cannot be opened: {type(error).__name__}") from None
    return OpenedBundle(
        domain_name=bundle.domain_name,
        serial=bundle.serial,
        certificate_pem=bundle.certificate_pem,
        chain_pem=bundle.chain_pem,
        fullchain_pem=bundle.fullchain_pem,
        private_key_der=private_key,
    )
