"""Sealed values are opened with libsodium and AES-GCM directly."""

import hashlib

import pytest
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from nacl.exceptions import CryptoError
from nacl.public import PrivateKey, SealedBox

from restante.updates.pki.crypto.sealing import (
    PENDING_WRAP,
    encrypt_private_key,
    key_fingerprint,
    new_data_key,
    wrap_data_key,
)


def test_data_keys_are_unique_and_32_bytes_long() -> None:
    assert len(new_data_key()) == 32
    assert new_data_key() != new_data_key()


def test_private_key_opens_with_nonce_tag_and_no_associated_data() -> None:
    data_key = new_data_key()
    encrypted = encrypt_private_key(data_key, b"pkcs8")
    assert (len(encrypted.nonce), len(encrypted.tag), len(encrypted.ciphertext)) == (12, 16, 5)
    plain = AESGCM(data_key).decrypt(encrypted.nonce, encrypted.ciphertext + encrypted.tag, None)
    assert plain == b"pkcs8"


def test_altered_tag_is_refused() -> None:
    data_key = new_data_key()
    encrypted = encrypt_private_key(data_key, b"pkcs8")
    with pytest.raises(InvalidTag):
        AESGCM(data_key).decrypt(encrypted.nonce, encrypted.ciphertext + bytes(16), None)


def test_two_encryptions_never_share_a_nonce() -> None:
    data_key = new_data_key()
    assert len({encrypt_private_key(data_key, b"same").nonce for _ in range(100)}) == 100


def test_wrap_is_80_bytes_and_only_the_device_opens_it() -> None:
    device, other_key = PrivateKey.generate(), PrivateKey.generate()
    data_key = new_data_key()
    wrapped = wrap_data_key(data_key, bytes(device.public_key))
    assert len(wrapped) == 80
    assert SealedBox(device).decrypt(wrapped) == data_key
    with pytest.raises(CryptoError):
        SealedBox(other_key).decrypt(wrapped)


@pytest.mark.parametrize("bad_key", [bytes(32), b"short"])
def test_bad_device_key_raises_crypto_error(bad_key: bytes) -> None:
    with pytest.raises(CryptoError):
        wrap_data_key(new_data_key(), bad_key)


def test_sentinel_and_fingerprint_match_the_contract() -> None:
    assert bytes(48) == PENDING_WRAP
    assert key_fingerprint(b"k" * 32) == hashlib.blake2b(b"k" * 32, digest_size=32).digest()
