"""The vectors of certificate bundles: a private key that is encrypted for one device.

The sealed box is written out here from its definition (libsodium's `crypto_box_seal`) with fixed ephemeral keys, so the
file is the same every time. It shares no code with server or client.
"""

import base64
import hashlib
from typing import Any

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from nacl.bindings import crypto_box, crypto_scalarmult_base

NAME = "bundles.json"
TAG_BYTES = 16


def build() -> dict[str, Any]:
    good = [_bundle(number) for number in range(3)]
    bad = {
        "wrapped for another device key": {"device_keyfp_b64": _text(bytes(32))},
        "a data key that is changed": {"enc_data_key_b64": _flipped(good[0]["bundle"]["enc_data_key_b64"])},
        "a data key that is still pending": {"enc_data_key_b64": _text(bytes(48))},
        "an encrypted key that is changed": {"enc_privkey_b64": _flipped(good[0]["bundle"]["enc_privkey_b64"])},
        "a tag that is changed": {"privkey_tag_b64": _flipped(good[0]["bundle"]["privkey_tag_b64"])},
        "another nonce": {"privkey_nonce_b64": _text(bytes(12))},
        "another wrapping": {"wrap_alg": "rsa"},
        "another encryption": {"enc_scheme": "aes128gcm"},
    }
    return {
        "how": "data key = crypto_box_seal_open(enc_data_key, device key); private key (PKCS #8 DER) = "
        "AES-256-GCM-open(data key, nonce, ciphertext + tag, no additional data); device_keyfp = BLAKE2b-256 of the "
        "device's public key",
        "vectors": good,
        "refused": [
            {
                "name": name,
                "device_private_key_b64": good[0]["device_private_key_b64"],
                "bundle": {**good[0]["bundle"], **changed},
            }
            for name, changed in bad.items()
        ],
    }


def _bundle(number: int) -> dict[str, Any]:
    device, ephemeral = (_bytes(f"{name} {number}", 32) for name in ("device key", "ephemeral key"))
    data_key, nonce = _bytes(f"data key {number}", 32), _bytes(f"nonce {number}", 12)
    key = ec.derive_private_key(1_000_003 + number, ec.SECP256R1())
    der = key.private_bytes(serialization.Encoding.DER, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    encrypted = AESGCM(data_key).encrypt(nonce, der, None)
    public = crypto_scalarmult_base(device)
    return {
        "name": f"device {number}",
        "device_private_key_b64": _text(device),
        "device_public_key_b64": _text(public),
        "data_key_b64": _text(data_key),
        "private_key_der_b64": _text(der),
        "bundle": {
            "serial": f"{number:02d}",
            "domain_name": f"device{number}.example",
            "certificate_pem": "leaf",
            "chain_pem": "chain",
            "fullchain_pem": "leafchain",
            "wrap_alg": "x25519",
            "enc_scheme": "aes256gcm",
            "device_keyfp_b64": _text(hashlib.blake2b(public, digest_size=32).digest()),
            "enc_data_key_b64": _text(_sealed(data_key, public, ephemeral)),
            "enc_privkey_b64": _text(encrypted[:-TAG_BYTES]),
            "privkey_nonce_b64": _text(nonce),
            "privkey_tag_b64": _text(encrypted[-TAG_BYTES:]),
        },
    }


def _sealed(message: bytes, public: bytes, ephemeral: bytes) -> bytes:
    ephemeral_public = crypto_scalarmult_base(ephemeral)
    nonce = hashlib.blake2b(ephemeral_public + public, digest_size=24).digest()
    return ephemeral_public + crypto_box(message, nonce, public, ephemeral)


def _bytes(name: str, length: int) -> bytes:
    return hashlib.sha256(f"bundle vector: {name}".encode()).digest()[:length]


def _flipped(text: str) -> str:
    value = bytearray(base64.b64decode(text))
    value[-1] ^= 1
    return _text(bytes(value))


def _text(value: bytes) -> str:
    return base64.b64encode(value).decode()
