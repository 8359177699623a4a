"""Opening certificate bundles, and refusing wrong ones."""

from __future__ import annotations

import base64
import os
from typing import Any

import msgspec
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from nacl.public import PrivateKey, SealedBox

from restante_client import CertificateBundle, open_bundle
from restante_client.device.bundles import key_fingerprint
from restante_client.errors import VerificationFailed

DEVICE_KEY = PrivateKey(bytes(range(32)))
KEY = ec.derive_private_key(1234567, ec.SECP256R1())
KEY_DER = KEY.private_bytes(serialization.Encoding.DER, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())


def text(value: bytes) -> str:
    return base64.b64encode(value).decode()


def bundle(**changed: Any) -> CertificateBundle:
    data_key, nonce = os.urandom(32), os.urandom(12)
    encrypted = AESGCM(data_key).encrypt(nonce, KEY_DER, None)
    made = CertificateBundle(
        serial="04",
        domain_name="a.example",
        certificate_pem="leaf",
        chain_pem="chain",
        fullchain_pem="leafchain",
        wrap_alg="x25519",
        enc_scheme="aes256gcm",
        device_keyfp_b64=text(key_fingerprint(bytes(DEVICE_KEY.public_key))),
        enc_data_key_b64=text(SealedBox(DEVICE_KEY.public_key).encrypt(data_key)),
        enc_privkey_b64=text(encrypted[:-16]),
        privkey_nonce_b64=text(nonce),
        privkey_tag_b64=text(encrypted[-16:]),
    )
    return msgspec.structs.replace(made, **changed)


def test_private_key_is_decrypted() -> None:
    opened = open_bundle(bundle(), DEVICE_KEY)
    assert opened.private_key_der == KEY_DER
    assert serialization.load_pem_private_key(opened.private_key_pem, None).public_key() == KEY.public_key()
    assert (opened.domain_name, opened.serial, opened.fullchain_pem) == ("a.example", "04", "leafchain")
    assert "private" not in repr(opened)


@pytest.mark.parametrize(
    "changed",
    [
        {"wrap_alg": "rsa"},
        {"enc_scheme": "none"},
        {"device_keyfp_b64": text(bytes(32))},
        {"enc_data_key_b64": text(bytes(48))},
        {"enc_data_key_b64": text(SealedBox(DEVICE_KEY.public_key).encrypt(bytes(5)))},
        {"privkey_tag_b64": text(bytes(16))},
        {"privkey_nonce_b64": text(bytes(12))},
        {"privkey_nonce_b64": ""},
        {"enc_privkey_b64": "not base64"},
    ],
)
def test_wrong_bundle_is_refused(changed: dict[str, str]) -> None:
    with pytest.raises(VerificationFailed):
        open_bundle(bundle(**changed), DEVICE_KEY)


def test_bundle_of_another_device_is_refused() -> None:
    with pytest.raises(VerificationFailed, match="another device key"):
        open_bundle(bundle(), PrivateKey.generate())
