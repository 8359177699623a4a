"""The published vectors: the generators make exactly these, and the server's code agrees with every one.

`client/tests/test_vectors.py` checks the same files with the client's code.
"""

import base64
import json
from typing import Any

import msgspec
import pytest
from joserfc import jws
from nacl.public import PrivateKey, SealedBox
from restante_client import CertificateBundle, open_bundle
from restante_client.events.jws import parse, read_jwks, verify

from restante.commands.dispatch.signing import is_ack_signature_valid
from restante.core.commands.canonical import reference_json
from restante.core.errors import InvalidToken
from restante.events.signing.jws import (
    SigningInfo,
    compact_token,
    open_banking_header,
    shared_signals_header,
    signing_function,
)
from restante.identity.jwt import jwks
from restante.identity.jwt.jwts import allowed_algorithms, check_signature
from restante.updates.pki.crypto import sealing
from tests.commands import signature_vectors
from tests.vectors import ack_vectors, bundle_vectors, token_vectors
from tests.vectors.published import FOLDER, read

ACKS: Any = read(ack_vectors.NAME)
BUNDLES: Any = read(bundle_vectors.NAME)
TOKENS: Any = read(token_vectors.NAME)
SHARED = "ES256, shared-signals"


def name_of(vector: dict[str, Any]) -> str:
    return str(vector["name"])


def test_generators_make_the_published_vectors() -> None:
    assert ack_vectors.build() == ACKS
    assert bundle_vectors.build() == BUNDLES
    assert token_vectors.build(TOKENS) == TOKENS


def test_every_file_of_vectors_is_described() -> None:
    text = (FOLDER / "README.md").read_text("utf-8")
    names = {ack_vectors.NAME, bundle_vectors.NAME, token_vectors.NAME, signature_vectors.VECTORS_PATH.name}
    assert {path.name for path in FOLDER.glob("*.json")} == names
    assert [name for name in names if f"({name})" not in text] == []


@pytest.mark.parametrize("vector", ACKS["vectors"], ids=name_of)
def test_server_accepts_the_ack_and_no_changed_one(vector: dict[str, Any]) -> None:
    assert reference_json(vector["ack"]) == vector["canonical_json"].encode() == bytes.fromhex(vector["canonical_hex"])
    assert is_ack_signature_valid(vector["body"].encode(), ["00" * 32, vector["secret"]])
    assert not is_ack_signature_valid(vector["body"].encode(), ["00" * 32])
    changed = {**json.loads(vector["body"]), "attempt": 99}
    assert not is_ack_signature_valid(json.dumps(changed).encode(), [vector["secret"]])


@pytest.mark.parametrize("vector", BUNDLES["vectors"], ids=name_of)
def test_server_encrypts_for_the_device_of_the_vector(vector: dict[str, Any]) -> None:
    public, private = (base64.b64decode(vector[f"device_{name}_key_b64"]) for name in ("public", "private"))
    data_key, der = base64.b64decode(vector["data_key_b64"]), base64.b64decode(vector["private_key_der_b64"])
    fields = vector["bundle"]
    assert sealing.key_fingerprint(public) == base64.b64decode(fields["device_keyfp_b64"])
    assert SealedBox(PrivateKey(private)).decrypt(base64.b64decode(fields["enc_data_key_b64"])) == data_key
    # What the server makes is opened in the same way as the vector.
    encrypted = sealing.encrypt_private_key(data_key, der)
    made = {
        **fields,
        "enc_data_key_b64": text(sealing.wrap_data_key(data_key, public)),
        "enc_privkey_b64": text(encrypted.ciphertext),
        "privkey_nonce_b64": text(encrypted.nonce),
        "privkey_tag_b64": text(encrypted.tag),
    }
    for each in (fields, made):
        assert open_bundle(msgspec.convert(each, CertificateBundle), PrivateKey(private)).private_key_der == der


@pytest.mark.parametrize("vector", TOKENS["vectors"], ids=name_of)
def test_server_signs_the_token_of_the_vector(vector: dict[str, Any]) -> None:
    alg, kid = vector["alg"], {"PS256": "rsa", "RS256": "rsa", "ES256": "ec", "EdDSA": "ed25519"}[vector["alg"]]
    info = SigningInfo(alg, kid, token_vectors.TIMES)
    is_open_banking = vector["profile"] == "open-banking"
    header = open_banking_header(info, TOKENS["issuer"], "bank.example")
    header = header if is_open_banking else shared_signals_header(info)
    sign = signing_function(alg, base64.b64decode(TOKENS["private_keys_der_b64"][kid]))
    payload = json.dumps(vector["claims"], separators=(",", ":")).encode()
    made = compact_token(header, payload, sign)
    assert made.rpartition(".")[0] == vector["token"].rpartition(".")[0]
    if alg in ("RS256", "EdDSA"):
        assert made == vector["token"]
    keys = jwks._usable(TOKENS["jwks"]["keys"])
    for token in (made, vector["token"]):
        verify(parse(token), read_jwks(TOKENS["jwks"]))
        # The server verifies assertions and access tokens, which have no `crit`.
        if not is_open_banking:
            check_signature(jws.extract_compact(token.encode()), keys[kid], allowed_algorithms((alg,)))


def test_server_refuses_the_signature_of_another_token() -> None:
    first, second = (each["token"] for each in TOKENS["vectors"] if each["name"] in ("RS256, shared-signals", SHARED))
    mixed = f"{second.rpartition('.')[0]}.{first.rpartition('.')[2]}"
    keys = jwks._usable(TOKENS["jwks"]["keys"])
    with pytest.raises(InvalidToken):
        check_signature(jws.extract_compact(mixed.encode()), keys["ec"], allowed_algorithms(("ES256", "RS256")))


def text(value: bytes) -> str:
    return base64.b64encode(value).decode()
