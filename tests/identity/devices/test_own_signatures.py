"""Signatures of our own tokens, checked by signing again, compared with the ordinary verification of EdDSA."""

import base64
import json
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from joserfc import jws
from joserfc.jwk import OKPKey

from restante.core.errors import InvalidToken
from restante.database.database import Database
from restante.identity import signing_keys
from restante.identity.devices.device_tokens import OWN_TYPES
from restante.identity.devices.own_signatures import HEADERS_MAX, OwnSignatures
from restante.identity.jwt.jwts import allowed_algorithms, check_signature, check_type, key_id_of, parse_token
from restante.identity.master_key import MasterKey
from restante.identity.signing_keys import SigningKeys
from tests.examples import EXAMPLES_FACTOR

MASTER = MasterKey(bytes(32))
EDDSA = allowed_algorithms(("EdDSA",))
CLAIMS = b'{"iss":"restante","sub":"1","device_id":1,"exp":1}'


class Signatures:
    def __init__(self, database: Database) -> None:
        self.database = database
        self.keys = SigningKeys(database, MASTER)
        self.own = OwnSignatures(self.keys)

    def token(self, payload: bytes = CLAIMS, key: OKPKey | None = None, **header: Any) -> bytes:
        kid, signing = self.keys.signing
        header = {"alg": "EdDSA", "typ": "at+jwt", "kid": kid, **header}
        return jws.serialize_compact(header, payload, key or signing, registry=EDDSA).encode()

    def payload_by_verification(self, token: bytes) -> bytes:
        """The payload by the ordinary verification, or raise InvalidToken."""
        signed, _claims = parse_token(token, dict)
        check_type(signed, OWN_TYPES)
        check_signature(signed, self.keys.find(key_id_of(signed), 0.0), EDDSA)
        return signed.payload or b""


@pytest.fixture
async def signatures(database: Database) -> Signatures:
    signatures = Signatures(database)
    await signatures.keys.load()
    signatures.own.reset({signatures.keys.signing[0]: signatures.token()})
    return signatures


def test_genuine_token_has_the_payload_of_the_verification(signatures: Signatures) -> None:
    for payload in (CLAIMS, b"{}", b'{"a":"\xc3\xa9"}', b" " * 300 + b"{}"):
        token = signatures.token(payload)
        assert signatures.own.payload(token, 0.0) == signatures.payload_by_verification(token) == payload


def test_every_altered_character_is_refused(signatures: Signatures) -> None:
    token = signatures.token()
    for at in range(len(token)):
        altered = token[:at] + (b"B" if token[at : at + 1] == b"A" else b"A") + token[at + 1 :]
        try:
            payload = signatures.own.payload(altered, 0.0)
        except InvalidToken:
            continue
        assert payload is None  # another header: not decided here
        assert at <= token.index(b".")


@settings(
    max_examples=200 * EXAMPLES_FACTOR,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
@given(
    start=st.integers(0, 250),
    length=st.integers(0, 90),
    inserted=st.binary(max_size=4) | st.sampled_from([b".", b"=", b"\n", b" ", b"A" * 86, b".."]),
)
def test_no_altered_token_is_accepted_that_the_verification_refuses(
    signatures: Signatures, start: int, length: int, inserted: bytes
) -> None:
    token = signatures.token()
    altered = token[:start] + inserted + token[start + length :]
    try:
        payload = signatures.own.payload(altered, 0.0)
    except InvalidToken:
        return
    if payload is not None:
        assert payload == signatures.payload_by_verification(altered)


def test_token_of_another_key_under_our_header_is_refused(signatures: Signatures) -> None:
    with pytest.raises(InvalidToken, match="signature"):
        signatures.own.payload(signatures.token(key=OKPKey.generate_key("Ed25519")), 0.0)


def test_encodings_of_the_signature_that_are_not_canonical_are_refused(signatures: Signatures) -> None:
    token = signatures.token()
    raw = base64.urlsafe_b64decode(token.rpartition(b".")[2] + b"==")
    alphabet = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
    others = [token[:-1] + bytes([each]) for each in alphabet if each != token[-1]]
    same = [each for each in others if base64.urlsafe_b64decode(each.rpartition(b".")[2] + b"==") == raw]
    assert len(same) == 15
    for other in [*same, token + b"=="]:
        with pytest.raises(InvalidToken):
            signatures.own.payload(other, 0.0)


def test_unknown_header_is_left_to_the_verification(signatures: Signatures) -> None:
    older = signatures.token(typ="JWT")
    assert signatures.own.payload(older, 0.0) is None
    signatures.own.remember(older, signatures.keys.signing[0])
    assert signatures.own.payload(older, 0.0) == CLAIMS
    for text in (b"", b".", b"..", b"a.b.c", b"\xff.\xff.\xff", older.partition(b".")[2]):
        assert signatures.own.payload(text, 0.0) is None


def test_number_of_known_headers_is_limited(signatures: Signatures) -> None:
    kid = signatures.keys.signing[0]
    for number in range(HEADERS_MAX + 1):
        signatures.own.remember(signatures.token(number=number), kid)
    assert signatures.own.payload(signatures.token(number=0), 0.0) is None
    assert signatures.own.payload(signatures.token(number=HEADERS_MAX), 0.0) == CLAIMS


def test_oversized_token_is_left_to_the_verification(signatures: Signatures) -> None:
    assert signatures.own.payload(signatures.token(json.dumps("a" * 8192).encode()), 0.0) is None


async def test_key_that_no_longer_verifies_is_refused(signatures: Signatures) -> None:
    token = signatures.token()
    old_until = signatures.database.write_now(_rotate)
    await signatures.keys.load()
    assert signatures.own.payload(token, old_until - 0.001) == CLAIMS
    with pytest.raises(InvalidToken, match="key"):
        signatures.own.payload(token, old_until)


def _rotate(conn: Any) -> float:
    signing_keys.rotate(conn, signing_keys.make(MASTER), 3600)
    until = signing_keys.list_verifying(conn)[1].verifies_until
    assert until is not None
    return until / 1000


def test_claims_of_our_tokens_are_decoded_after_the_check_only(signatures: Signatures) -> None:
    """The payload of a forged token may be anything: it is refused before it is decoded."""
    header, _, rest = signatures.token().partition(b".")
    with pytest.raises(InvalidToken):
        signatures.own.payload(header + b".!!!." + rest.rpartition(b".")[2], 0.0)
    assert msgspec.json.decode(signatures.own.payload(signatures.token(), 0.0) or b"")["device_id"] == 1
