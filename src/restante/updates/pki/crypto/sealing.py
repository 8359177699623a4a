"""Encryption of a certificate's private key for one device: only that device can read it.

    once for each issue    private key (PKCS#8 DER) ── AES-256-GCM, data key ──▶ enc_privkey, nonce, tag
    once for each device   data key (32 random bytes) ── crypto_box_seal, X25519 key ──▶ enc_data_key

A data key serves one issue of one certificate and encrypts one message. While a device's wrap is pending, 48 zero bytes
are stored in its place: a real wrap has 80 bytes, so the two cannot be confused. The server stores data keys and
authority keys only sealed under the master key, each kind under its own purpose.
"""

import hashlib
import os
from dataclasses import dataclass

from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from nacl.public import PublicKey, SealedBox

WRAP_ALG = "x25519"
ENC_SCHEME = "aes256gcm"
PENDING_WRAP = bytes(48)

DATA_KEY_PURPOSE = "certificate data key"
AUTHORITY_KEY_PURPOSE = "authority private key"

DATA_KEY_BYTES = 32
NONCE_BYTES = 12
TAG_BYTES = 16


@dataclass(frozen=True, slots=True)
class EncryptedKey:
    """A private key encrypted with a data key; the authentication tag is separate."""

    ciphertext: bytes
    nonce: bytes
    tag: bytes


def new_data_key() -> bytes:
    return os.urandom(DATA_KEY_BYTES)


def encrypt_private_key(data_key: bytes, private_key_der: bytes) -> EncryptedKey:
    nonce = os.urandom(NONCE_BYTES)
    sealed = AESGCM(data_key).encrypt(nonce, private_key_der, None)
    return EncryptedKey(sealed[:-TAG_BYTES], nonce, sealed[-TAG_BYTES:])


def wrap_data_key(data_key: bytes, device_public_key: bytes) -> bytes:
    """Encrypt the data key for the device's private key; raises CryptoError if the public key is a bad point."""
    return SealedBox(PublicKey(device_public_key)).encrypt(data_key)


def key_fingerprint(device_public_key: bytes) -> bytes:
    return hashlib.blake2b(device_public_key, digest_size=32).digest()
