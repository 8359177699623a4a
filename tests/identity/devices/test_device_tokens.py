import asyncio
import base64
import json
from collections.abc import Callable
from typing import Any, cast

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from joserfc import jws
from joserfc.jwk import ECKey, Key, OctKey, OKPKey, RSAKey

from restante.core.errors import NotAllowed, NotAuthenticated
from restante.database.database import Database
from restante.database.errors import DatabaseUnavailable
from restante.identity import signing_keys
from restante.identity.callers import DeviceCaller
from restante.identity.jwt.issuers import ExternalIssuer, ExternalIssuers
from restante.identity.jwt.jwts import AllowedAlgorithms
from restante.identity.master_key import MasterKey
from restante.identity.signing_keys import SigningKeys
from restante.updates.devices import devices
from tests.conftest import ManualClock
from tests.defaults import new_device_tokens
from tests.delivery.busy_database import hold_readers
from tests.examples import EXAMPLES_FACTOR
from tests.identity.people_and_devices import add_device, add_user

MASTER = MasterKey(bytes(32))
EXTERNAL = "https://issuer.example"
EXTERNAL_KEY = ECKey.generate_key("P-256")


class TokenFixture:
    """A user with a device, and the verifier of its tokens."""

    def __init__(self, database: Database, clock: ManualClock) -> None:
        self.database = database
        self.clock = clock
        self.user_id = add_user(database)
        self.device_id = add_device(database, self.user_id)
        self.keys = SigningKeys(database, MASTER)
        issuer = ExternalIssuer(EXTERNAL, "unused.json", "restante", ("ES256",))
        issuers = ExternalIssuers((issuer,), load=lambda _source: {"out-1": EXTERNAL_KEY})
        self.tokens = new_device_tokens(database, self.keys, issuers, clock=self.now)

    def now(self) -> float:
        return self.clock.now_ms / 1000

    def claims(self, **changed: Any) -> dict[str, Any]:
        claims = {
            "iss": "restante",
            "sub": str(self.user_id),
            "device_id": self.device_id,
            "exp": self.now() + 60,
            **changed,
        }
        return {name: value for name, value in claims.items() if value is not ...}

    def own_token(self, header: dict[str, Any] | None = None, **changed: Any) -> str:
        kid, key = self.keys.signing
        return signed({"alg": "EdDSA", "typ": "at+jwt", "kid": kid, **(header or {})}, self.claims(**changed), key)

    def external_token(self, header: dict[str, Any] | None = None, **changed: Any) -> str:
        claims = self.claims(**{"iss": EXTERNAL, "aud": "restante", **changed})
        return signed({"alg": "ES256", "kid": "out-1", **(header or {})}, claims, EXTERNAL_KEY)


def signed(header: dict[str, Any], claims: Any, key: Key) -> str:
    header = {name: value for name, value in header.items() if value is not ...}
    payload = json.dumps(claims).encode()
    return jws.serialize_compact(header, payload, key, registry=AllowedAlgorithms([header["alg"]]))


def segment(value: Any) -> str:
    return base64.urlsafe_b64encode(json.dumps(value).encode()).decode().rstrip("=")


@pytest.fixture
async def fixture(database: Database, clock: ManualClock) -> TokenFixture:
    fixture = TokenFixture(database, clock)
    await fixture.tokens.start()
    return fixture


async def refused(fixture: TokenFixture, token: str) -> str:
    with pytest.raises(NotAuthenticated) as error:
        await fixture.tokens.verify(token)
    assert fixture.tokens.cached(token.encode("utf-8", "surrogatepass"), fixture.now()) is None
    return error.value.message


async def test_own_token_is_verified_and_cached(fixture: TokenFixture) -> None:
    token = fixture.tokens.mint(fixture.user_id, fixture.device_id)
    caller = await fixture.tokens.verify(token)
    assert caller == DeviceCaller(fixture.device_id, fixture.user_id, fixture.now() + 3600)
    assert fixture.tokens.cached(token.encode(), fixture.now()) is caller


async def test_own_token_has_the_documented_claims(fixture: TokenFixture) -> None:
    first, second = (fixture.tokens.mint(fixture.user_id, fixture.device_id) for _ in range(2))
    parsed = jws.extract_compact(first.encode())
    claims = json.loads(parsed.payload or b"")
    assert parsed.headers() == {"alg": "EdDSA", "typ": "at+jwt", "kid": fixture.keys.signing[0]}
    assert claims["sub"] == str(fixture.user_id)
    assert claims["device_id"] == fixture.device_id
    assert claims["exp"] - claims["iat"] == 3600
    assert claims["iss"] == "restante"
    assert claims["jti"] != json.loads(jws.extract_compact(second.encode()).payload or b"")["jti"]


async def test_cached_token_expires(fixture: TokenFixture) -> None:
    token = fixture.tokens.mint(fixture.user_id, fixture.device_id)
    await fixture.tokens.verify(token)
    fixture.clock.advance(3599.999)
    await fixture.tokens.verify(token)
    fixture.clock.advance(0.001)
    assert fixture.tokens.cached(token.encode(), fixture.now()) is None
    assert "expired" in await refused(fixture, token)


@pytest.mark.parametrize(
    "changed",
    [
        {"exp": ...},
        {"exp": "soon"},
        {"exp": None},
        {"exp": 0},
        {"sub": ...},
        {"sub": 7},
        {"iss": ...},
        {"iss": "https://unknown.example"},
        {"nbf": 10**11},
    ],
)
async def test_missing_or_wrong_claim_is_refused(fixture: TokenFixture, changed: dict[str, Any]) -> None:
    await refused(fixture, fixture.own_token(**changed))


@pytest.mark.parametrize("kid", [..., "", "unknown", "out-1"])
async def test_unknown_kid_is_refused(fixture: TokenFixture, kid: Any) -> None:
    await refused(fixture, fixture.own_token({"kid": kid}))


async def test_key_of_another_issuer_is_refused(fixture: TokenFixture) -> None:
    await refused(fixture, fixture.external_token(iss="restante"))
    kid, key = fixture.keys.signing
    await refused(fixture, signed({"alg": "EdDSA", "kid": kid}, fixture.claims(iss=EXTERNAL, aud="restante"), key))
    await refused(fixture, signed({"alg": "EdDSA", "kid": "out-1"}, fixture.claims(iss=EXTERNAL), key))


async def test_other_algorithm_is_refused(fixture: TokenFixture) -> None:
    kid, key = fixture.keys.signing
    unsigned = f"{segment({'alg': 'none', 'typ': 'at+jwt', 'kid': kid})}.{segment(fixture.claims())}."
    await refused(fixture, unsigned)
    # The public key used as a shared secret: the classic algorithm confusion.
    secret = OctKey.import_key(key.public_key.public_bytes_raw())
    await refused(fixture, signed({"alg": "HS256", "typ": "at+jwt", "kid": kid}, fixture.claims(), secret))
    rsa = RSAKey.generate_key(2048)
    await refused(fixture, signed({"alg": "RS256", "typ": "at+jwt", "kid": kid}, fixture.claims(), rsa))
    await refused(fixture, fixture.own_token().replace(".", "!", 1))


async def test_keys_in_the_header_are_ignored(fixture: TokenFixture) -> None:
    unknown_key = OKPKey.generate_key("Ed25519")
    kid, _ = fixture.keys.signing
    for header in (
        {"jwk": unknown_key.as_dict(private=False)},
        {"jku": "https://unknown.example/keys"},
        {"x5u": "https://unknown.example/cert"},
    ):
        forged = signed({"alg": "EdDSA", "typ": "at+jwt", "kid": kid, **header}, fixture.claims(), unknown_key)
        assert "signature" in await refused(fixture, forged)


@pytest.mark.parametrize("kind", ["secevent+jwt", "logout+jwt", "at+jwt2", "", ...])
async def test_own_token_of_another_type_is_refused(fixture: TokenFixture, kind: object) -> None:
    assert "typ" in await refused(fixture, fixture.own_token({"typ": kind}))


@pytest.mark.parametrize("kind", ["at+jwt", "AT+JWT", "application/at+jwt", "JWT"])
async def test_own_token_of_its_type_is_accepted(fixture: TokenFixture, kind: str) -> None:
    await fixture.tokens.verify(fixture.own_token({"typ": kind}))


@pytest.mark.parametrize("kind", ["secevent+jwt", "logout+jwt", "dpop+jwt", ""])
async def test_external_token_of_another_type_is_refused(fixture: TokenFixture, kind: object) -> None:
    assert "typ" in await refused(fixture, fixture.external_token({"typ": kind}))


@pytest.mark.parametrize("kind", ["JWT", "at+jwt", ...])
async def test_external_token_may_have_the_usual_types(fixture: TokenFixture, kind: object) -> None:
    await fixture.tokens.verify(fixture.external_token({"typ": kind}))


async def test_critical_extension_is_refused(fixture: TokenFixture) -> None:
    kid, key = fixture.keys.signing
    assert isinstance(key.private_key, Ed25519PrivateKey)
    header = segment({"alg": "EdDSA", "typ": "at+jwt", "kid": kid, "crit": ["b64"], "b64": True})
    body = f"{header}.{segment(fixture.claims())}"
    signature = base64.urlsafe_b64encode(key.private_key.sign(body.encode())).decode().rstrip("=")
    await refused(fixture, f"{body}.{signature}")


async def test_altered_payload_or_signature_is_refused(fixture: TokenFixture) -> None:
    header, _, signature = fixture.own_token().split(".")
    await refused(fixture, f"{header}.{segment(fixture.claims(device_id=1000))}.{signature}")
    await refused(fixture, f"{header}.{segment(fixture.claims())}.")


@pytest.mark.parametrize(
    "token",
    ["", ".", "..", "...", "a.b.c", "ÿ.ÿ.ÿ", "\ud800", "x" * 8193, "e30.e30.e30", "bnVsbA.bnVsbA.e30"],
)
async def test_other_text_is_refused(fixture: TokenFixture, token: str) -> None:
    await refused(fixture, token)


@settings(
    max_examples=200 * EXAMPLES_FACTOR,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
@given(
    header=st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(),
        lambda x: st.lists(x) | st.dictionaries(st.sampled_from(["alg", "kid", "crit", "b64", "x5c", "typ"]), x),
    )
)
async def test_arbitrary_header_is_refused_without_server_error(fixture: TokenFixture, header: Any) -> None:
    await refused(fixture, f"{segment(header)}.{segment(fixture.claims())}.AAAA")


@pytest.mark.parametrize("device_id", [..., None, 0, -1, True, 1.5, "", "x", "1.0", [1], {"id": 1}])
async def test_valid_token_without_a_device_is_forbidden(fixture: TokenFixture, device_id: Any) -> None:
    with pytest.raises(NotAllowed, match="device_id"):
        await fixture.tokens.verify(fixture.own_token(device_id=device_id))


@pytest.mark.parametrize("device_id", [999, 2**63 - 1])
async def test_token_of_missing_device_is_forbidden(fixture: TokenFixture, device_id: int) -> None:
    with pytest.raises(NotAllowed):
        await fixture.tokens.verify(fixture.own_token(device_id=device_id))


@pytest.mark.parametrize("identifier", [2**63, 10**30])
async def test_identifier_too_large_for_the_database_is_forbidden(fixture: TokenFixture, identifier: int) -> None:
    with pytest.raises(NotAllowed):
        await fixture.tokens.verify(fixture.own_token(device_id=identifier))
    with pytest.raises(NotAllowed):
        await fixture.tokens.verify(fixture.own_token(sub=str(identifier)))


async def test_token_for_another_users_device_is_forbidden(fixture: TokenFixture) -> None:
    other = add_user(fixture.database, "ben@example.com")
    with pytest.raises(NotAllowed):
        await fixture.tokens.verify(fixture.own_token(sub=str(other)))
    with pytest.raises(NotAllowed):
        await fixture.tokens.verify(fixture.own_token(sub="not a number"))


async def test_token_of_revoked_device_is_forbidden(fixture: TokenFixture) -> None:
    token = fixture.tokens.mint(fixture.user_id, fixture.device_id)
    fixture.database.write_now(devices.revoke, fixture.device_id)
    with pytest.raises(NotAllowed):
        await fixture.tokens.verify(token)


async def test_cached_tokens_end_when_the_device_is_revoked(fixture: TokenFixture) -> None:
    tokens = [fixture.tokens.mint(fixture.user_id, fixture.device_id) for _ in range(3)]
    for token in tokens:
        await fixture.tokens.verify(token)
    fixture.database.write_now(devices.revoke, fixture.device_id)
    fixture.tokens.forget_device(fixture.device_id)
    for token in tokens:
        assert fixture.tokens.cached(token.encode(), fixture.now()) is None
        with pytest.raises(NotAllowed):
            await fixture.tokens.verify(token)


async def test_catch_up_drops_tokens_revoked_by_another_process(fixture: TokenFixture) -> None:
    token = fixture.tokens.mint(fixture.user_id, fixture.device_id)
    await fixture.tokens.verify(token)
    await fixture.tokens.catch_up()
    assert fixture.tokens.cached(token.encode(), fixture.now()) is not None
    fixture.database.write_now(devices.revoke, fixture.device_id)
    await fixture.tokens.catch_up()
    assert fixture.tokens.cached(token.encode(), fixture.now()) is None


async def test_catch_up_loads_rotated_keys(fixture: TokenFixture) -> None:
    old = fixture.tokens.mint(fixture.user_id, fixture.device_id)
    fixture.database.write_now(signing_keys.rotate, signing_keys.make(MASTER), 3600)
    await fixture.tokens.catch_up()
    new = fixture.tokens.mint(fixture.user_id, fixture.device_id)
    assert old.split(".")[0] != new.split(".")[0]
    await fixture.tokens.verify(old)
    await fixture.tokens.verify(new)


async def test_failed_load_of_the_keys_does_not_hide_a_revocation(
    fixture: TokenFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    token = fixture.tokens.mint(fixture.user_id, fixture.device_id)
    await fixture.tokens.verify(token)
    fixture.database.write_now(devices.revoke, fixture.device_id)
    fixture.database.write_now(signing_keys.rotate, signing_keys.make(MASTER), 3600)

    async def fail() -> None:
        raise DatabaseUnavailable("no connection")

    with monkeypatch.context() as failing:
        failing.setattr(fixture.keys, "load", fail)
        with pytest.raises(DatabaseUnavailable):
            await fixture.tokens.catch_up()
    assert fixture.tokens.cached(token.encode(), fixture.now()) is None
    await fixture.tokens.catch_up()
    new = fixture.tokens.mint(fixture.user_id, fixture.device_id)
    assert new.split(".")[0] != token.split(".")[0]


async def test_token_that_is_verified_while_all_are_forgotten_is_not_cached(fixture: TokenFixture) -> None:
    token = fixture.tokens.mint(fixture.user_id, fixture.device_id)
    release = hold_readers(fixture.database)
    verifying = asyncio.ensure_future(fixture.tokens.verify(token))
    await asyncio.sleep(0)  # it waits for the database now
    fixture.tokens.forget_all()
    release()
    assert (await verifying).device_id == fixture.device_id
    assert fixture.tokens.cached(token.encode(), fixture.now()) is None


async def test_external_issuers_token_is_verified(fixture: TokenFixture) -> None:
    caller = await fixture.tokens.verify(fixture.external_token())
    assert (caller.device_id, caller.user_id) == (fixture.device_id, fixture.user_id)
    await fixture.tokens.verify(fixture.external_token(aud=["other", "restante"], device_id=str(fixture.device_id)))


@pytest.mark.parametrize("changed", [{"aud": ...}, {"aud": "other"}, {"aud": ["other"]}, {"aud": 5}, {"exp": 1}])
async def test_external_token_for_another_audience_is_refused(fixture: TokenFixture, changed: dict[str, Any]) -> None:
    await refused(fixture, fixture.external_token(**changed))


async def test_external_issuers_clock_may_be_slightly_ahead(fixture: TokenFixture) -> None:
    await fixture.tokens.verify(fixture.external_token(nbf=fixture.now() + 60))
    await refused(fixture, fixture.external_token(nbf=fixture.now() + 61))


async def test_external_issuer_with_unknown_or_wrong_key_is_refused(fixture: TokenFixture) -> None:
    await refused(fixture, fixture.external_token({"kid": "out-2"}))
    forged = ECKey.generate_key("P-256")
    claims = fixture.claims(iss=EXTERNAL, aud="restante")
    await refused(fixture, signed({"alg": "ES256", "kid": "out-1"}, claims, forged))


async def test_long_lived_token_is_verified_again_after_an_hour(fixture: TokenFixture) -> None:
    token = fixture.external_token(exp=fixture.now() + 10**6)
    caller = await fixture.tokens.verify(token)
    assert caller.expires_at == fixture.now() + 3600
    fixture.clock.advance(3600)
    assert fixture.tokens.cached(token.encode(), fixture.now()) is None
    await fixture.tokens.verify(token)


class InterruptedDatabase:
    """Reads as the database does; `meanwhile` runs after each read and before its result is used."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self.meanwhile: Callable[[], None] = lambda: None

    async def read(self, work: Callable[..., Any], *args: Any) -> Any:
        result = await self._database.read(work, *args)
        self.meanwhile()
        return result


async def test_token_that_is_revoked_during_its_verification_is_not_cached(fixture: TokenFixture) -> None:
    """As by another process: the commit message empties the memo after the read, which did not see the revocation."""
    database = InterruptedDatabase(fixture.database)
    tokens = new_device_tokens(cast(Database, database), fixture.keys, clock=fixture.now)
    token = tokens.mint(fixture.user_id, fixture.device_id)

    def revoke() -> None:
        database.meanwhile = lambda: None
        fixture.database.write_now(devices.revoke, fixture.device_id)
        tokens.forget_all()

    database.meanwhile = revoke
    await tokens.verify(token)
    assert tokens.cached(token.encode(), fixture.now()) is None
    with pytest.raises(NotAllowed):
        await tokens.verify(token)


class UnreadableKeys(SigningKeys):
    """Signing keys that cannot be loaded so many times."""

    failures = 0

    async def load(self) -> None:
        if self.failures:
            self.failures -= 1
            raise DatabaseUnavailable("the keys cannot be read")
        await super().load()


async def test_failed_key_load_leaves_no_revoked_token_valid(fixture: TokenFixture) -> None:
    keys = UnreadableKeys(fixture.database, MASTER)
    tokens = new_device_tokens(fixture.database, keys, clock=fixture.now)
    await tokens.start()
    token = tokens.mint(fixture.user_id, fixture.device_id)
    await tokens.verify(token)
    fixture.database.write_now(devices.revoke, fixture.device_id)
    keys.failures = 1
    with pytest.raises(DatabaseUnavailable):
        await tokens.catch_up()
    assert tokens.cached(token.encode(), fixture.now()) is None
    # The next call tries again, although no further revocation came.
    fixture.database.write_now(signing_keys.rotate, signing_keys.make(MASTER), 3600)
    keys.failures = 1
    with pytest.raises(DatabaseUnavailable):
        await tokens.catch_up()
    before = keys.signing
    await tokens.catch_up()
    assert keys.signing != before
