"""Message signatures, beyond the conformance cases: limits of the form, and the key of responses."""

import json

import pytest

from restante.database.database import Database
from restante.events.errors import MalformedSignature
from restante.events.signing import event_keys
from restante.events.signing.message_signatures import LENGTH_MAX, SKEW_SECONDS, check_header, parse
from tests.events.client_app import KEY
from tests.events.default_options import message_signatures
from tests.events.message_signing import header_of, sign, verified_header

BODY = json.dumps({"Data": {"Version": "4.0"}}).encode()


def test_longest_signature_is_bounded() -> None:
    value = sign(BODY, {**header_of(), "more": "x"})
    parse(value)
    with pytest.raises(MalformedSignature):
        parse(sign(BODY, {**header_of(), "more": "x" * LENGTH_MAX}))


def test_clock_of_a_client_may_be_a_little_ahead() -> None:
    check_header(header_of(now=1000 + SKEW_SECONDS), "openbanking.org.uk", 1000)


async def signing_kid(database: Database) -> str:
    value = await message_signatures(database).sign(BODY, "v4.0", None)
    published = await database.read(event_keys.published_jwks)
    return str(verified_header(value.decode(), BODY, {"keys": published})["kid"])


async def test_response_is_signed_with_the_key_that_signs_events(database: Database) -> None:
    first = await signing_kid(database)
    assert await signing_kid(database) == first
    successor = event_keys.generate(KEY, "PS256")
    await database.write(event_keys.withdraw, first, successor, "me")
    assert await signing_kid(database) == successor.kid


async def test_opened_key_is_replaced_after_a_rotation(database: Database) -> None:
    signatures = message_signatures(database)
    before = await signatures.sign(BODY, "v3.1", None)
    rotated = event_keys.generate(KEY, "PS256")
    await database.write(event_keys.rotate, rotated, 0, 3600, "me")
    after = await signatures.sign(BODY, "v3.1", None)
    published = {"keys": await database.read(event_keys.published_jwks)}
    kids = [verified_header(each.decode(), BODY, published)["kid"] for each in (before, after)]
    assert kids[1] == rotated.kid != kids[0]
