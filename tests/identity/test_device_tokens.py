import base64
import json
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from joserfc import jws
from joserfc.jwk import ECKey, Key, OctKey, OKPKey, RSAKey

from restante.core.errors import NotAllowed, NotAuthenticated
from restante.database.database import Database
from restante.identity import signing_keys
from restante.identity.callers import DeviceCaller
from restante.identity.device_tokens import DeviceTokens, OnlyThese
from restante.identity.issuers import OutsideIssuer, OutsideIssuers
from restante.identity.master_key import MasterKey
from restante.identity.signing_keys import SigningKeys
from restante.updates import devices
from tests.conftest import ManualClock
from tests.examples import TIMES
from tests.identity.population import add_device, add_user

MASTER = MasterKey(bytes(32))
OUTSIDE = "https://issuer.example"
OUTSIDE_KEY = ECKey.generate_key("P-256")


class World:
    """A user with a device, and what verifies their tokens."""

    def __init__(self, database: Database, clock: ManualClock) -> None:
        self.database = database
        self.clock = clock
        self.user_id = add_user(database)
        self.device_id = add_device(database, self.user_id)
        self.keys = SigningKeys(database, MASTER)
        issuer = OutsideIssuer(OUTSIDE, "unused.json", "restante", ("ES256",))
        issuers = OutsideIssuers((issuer,), load=lambda _source: {"out-1": OUTSIDE_KEY})
        self.tokens = DeviceTokens(database, self.keys, issuers, clock=self.now)

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

    def ours(self, header: dict[str, Any] | None = None, **changed: Any) -> str:
        kid, key = self.keys.signing
        return signed({"alg": "EdDSA", "kid": kid, **(header or {})}, self.claims(**changed), key)

    def theirs(self, header: dict[str, Any] | None = None, **changed: Any) -> str:
        claims = self.claims(**{"iss": OUTSIDE, "aud": "restante", **changed})
        return signed({"alg": "ES256", "kid": "out-1", **(header or {})}, claims, OUTSIDE_KEY)


def signed(header: dict[str, Any], claims: Any, key: Key) -> str:
    header = {name: value for name, value in header.items() if value is not ...}
    payload = json.dumps(claims).encode()
    return jws.serialize_compact(header, payload, key, registry=OnlyThese([header["alg"]]))


def segment(value: Any) -> str:
    return base64.urlsafe_b64encode(json.dumps(value).encode()).decode().rstrip("=")


@pytest.fixture
async def world(database: Database, clock: ManualClock) -> World:
    world = World(database, clock)
    await world.tokens.start()
    return world


async def refused(world: World, token: str) -> str:
    with pytest.raises(NotAuthenticated) as error:
        await world.tokens.verify(token)
    assert world.tokens.cached(token.encode("utf-8", "surrogatepass"), world.now()) is None
    return error.value.message


async def test_our_own_token(world: World) -> None:
    token = world.tokens.mint(world.user_id, world.device_id)
    caller = await world.tokens.verify(token)
    assert caller == DeviceCaller(world.device_id, world.user_id, world.now() + 3600)
    assert world.tokens.cached(token.encode(), world.now()) is caller


async def test_what_is_in_our_token(world: World) -> None:
    first, second = (world.tokens.mint(world.user_id, world.device_id) for _ in range(2))
    parsed = jws.extract_compact(first.encode())
    claims = json.loads(parsed.payload or b"")
    assert parsed.headers() == {"alg": "EdDSA", "typ": "JWT", "kid": world.keys.signing[0]}
    assert claims["sub"] == str(world.user_id)
    assert claims["device_id"] == world.device_id
    assert claims["exp"] - claims["iat"] == 3600
    assert claims["iss"] == "restante"
    assert claims["jti"] != json.loads(jws.extract_compact(second.encode()).payload or b"")["jti"]


async def test_a_token_expires_also_when_it_is_remembered(world: World) -> None:
    token = world.tokens.mint(world.user_id, world.device_id)
    await world.tokens.verify(token)
    world.clock.advance(3599.999)
    await world.tokens.verify(token)
    world.clock.advance(0.001)
    assert world.tokens.cached(token.encode(), world.now()) is None
    assert "expired" in await refused(world, token)


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
        {"iss": "https://stranger.example"},
        {"nbf": 10**11},
    ],
)
async def test_claims_that_do_not_hold(world: World, changed: dict[str, Any]) -> None:
    await refused(world, world.ours(**changed))


@pytest.mark.parametrize("kid", [..., "", "unknown", "out-1"])
async def test_a_kid_that_is_not_ours(world: World, kid: Any) -> None:
    await refused(world, world.ours({"kid": kid}))


async def test_a_key_of_another_issuer_does_not_count_for_ours(world: World) -> None:
    await refused(world, world.theirs(iss="restante"))
    kid, key = world.keys.signing
    await refused(world, signed({"alg": "EdDSA", "kid": kid}, world.claims(iss=OUTSIDE, aud="restante"), key))
    await refused(world, signed({"alg": "EdDSA", "kid": "out-1"}, world.claims(iss=OUTSIDE), key))


async def test_no_algorithm_but_the_configured(world: World) -> None:
    kid, key = world.keys.signing
    unsigned = f"{segment({'alg': 'none', 'kid': kid})}.{segment(world.claims())}."
    await refused(world, unsigned)
    # The public key taken for a shared secret: the classic confusion.
    secret = OctKey.import_key(key.public_key.public_bytes_raw())
    await refused(world, signed({"alg": "HS256", "kid": kid}, world.claims(), secret))
    rsa = RSAKey.generate_key(2048)
    await refused(world, signed({"alg": "RS256", "kid": kid}, world.claims(), rsa))
    await refused(world, world.ours().replace(".", "!", 1))


async def test_what_the_header_says_about_keys_is_not_looked_at(world: World) -> None:
    stranger = OKPKey.generate_key("Ed25519")
    kid, _ = world.keys.signing
    for header in (
        {"jwk": stranger.as_dict(private=False)},
        {"jku": "https://stranger.example/keys"},
        {"x5u": "https://stranger.example/cert"},
    ):
        forged = signed({"alg": "EdDSA", "kid": kid, **header}, world.claims(), stranger)
        assert "signature" in await refused(world, forged)


async def test_a_critical_extension_is_refused(world: World) -> None:
    kid, key = world.keys.signing
    assert isinstance(key.private_key, Ed25519PrivateKey)
    header = segment({"alg": "EdDSA", "kid": kid, "crit": ["b64"], "b64": True})
    body = f"{header}.{segment(world.claims())}"
    signature = base64.urlsafe_b64encode(key.private_key.sign(body.encode())).decode().rstrip("=")
    await refused(world, f"{body}.{signature}")


async def test_an_altered_payload_or_signature(world: World) -> None:
    header, _, signature = world.ours().split(".")
    await refused(world, f"{header}.{segment(world.claims(device_id=1000))}.{signature}")
    await refused(world, f"{header}.{segment(world.claims())}.")


@pytest.mark.parametrize(
    "token",
    ["", ".", "..", "...", "a.b.c", "ÿ.ÿ.ÿ", "\ud800", "x" * 8193, "e30.e30.e30", "bnVsbA.bnVsbA.e30"],
)
async def test_what_is_no_token(world: World, token: str) -> None:
    await refused(world, token)


@settings(max_examples=200 * TIMES, suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture])
@given(
    header=st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(),
        lambda x: st.lists(x) | st.dictionaries(st.sampled_from(["alg", "kid", "crit", "b64", "x5c", "typ"]), x),
    )
)
async def test_odd_headers_are_refused_and_never_an_error_of_ours(world: World, header: Any) -> None:
    await refused(world, f"{segment(header)}.{segment(world.claims())}.AAAA")


@pytest.mark.parametrize("device_id", [..., None, 0, -1, True, 1.5, "", "x", "1.0", [1], {"id": 1}])
async def test_a_good_token_without_a_device(world: World, device_id: Any) -> None:
    with pytest.raises(NotAllowed, match="device_id"):
        await world.tokens.verify(world.ours(device_id=device_id))


@pytest.mark.parametrize("device_id", [999, 2**63 - 1])
async def test_a_device_that_is_not_there(world: World, device_id: int) -> None:
    with pytest.raises(NotAllowed):
        await world.tokens.verify(world.ours(device_id=device_id))


@pytest.mark.parametrize("identifier", [2**63, 10**30])
async def test_identifiers_no_database_can_hold(world: World, identifier: int) -> None:
    with pytest.raises(NotAllowed):
        await world.tokens.verify(world.ours(device_id=identifier))
    with pytest.raises(NotAllowed):
        await world.tokens.verify(world.ours(sub=str(identifier)))


async def test_a_device_of_another_user(world: World) -> None:
    other = add_user(world.database, "ben@example.com")
    with pytest.raises(NotAllowed):
        await world.tokens.verify(world.ours(sub=str(other)))
    with pytest.raises(NotAllowed):
        await world.tokens.verify(world.ours(sub="somebody"))


async def test_a_revoked_device(world: World) -> None:
    token = world.tokens.mint(world.user_id, world.device_id)
    world.database.write_now(devices.revoke, world.device_id)
    with pytest.raises(NotAllowed):
        await world.tokens.verify(token)


async def test_a_remembered_token_ends_with_its_device(world: World) -> None:
    tokens = [world.tokens.mint(world.user_id, world.device_id) for _ in range(3)]
    for token in tokens:
        await world.tokens.verify(token)
    world.database.write_now(devices.revoke, world.device_id)
    world.tokens.forget_device(world.device_id)
    for token in tokens:
        assert world.tokens.cached(token.encode(), world.now()) is None
        with pytest.raises(NotAllowed):
            await world.tokens.verify(token)


async def test_what_another_process_revoked_is_noticed_by_catching_up(world: World) -> None:
    token = world.tokens.mint(world.user_id, world.device_id)
    await world.tokens.verify(token)
    await world.tokens.catch_up()
    assert world.tokens.cached(token.encode(), world.now()) is not None
    world.database.write_now(devices.revoke, world.device_id)
    await world.tokens.catch_up()
    assert world.tokens.cached(token.encode(), world.now()) is None


async def test_rotation_is_noticed_by_catching_up(world: World) -> None:
    old = world.tokens.mint(world.user_id, world.device_id)
    world.database.write_now(signing_keys.rotate, signing_keys.make(MASTER), 3600)
    await world.tokens.catch_up()
    new = world.tokens.mint(world.user_id, world.device_id)
    assert old.split(".")[0] != new.split(".")[0]
    await world.tokens.verify(old)
    await world.tokens.verify(new)


async def test_an_outside_issuers_token(world: World) -> None:
    caller = await world.tokens.verify(world.theirs())
    assert (caller.device_id, caller.user_id) == (world.device_id, world.user_id)
    await world.tokens.verify(world.theirs(aud=["other", "restante"], device_id=str(world.device_id)))


@pytest.mark.parametrize("changed", [{"aud": ...}, {"aud": "other"}, {"aud": ["other"]}, {"aud": 5}, {"exp": 1}])
async def test_an_outside_issuers_token_that_is_not_for_us(world: World, changed: dict[str, Any]) -> None:
    await refused(world, world.theirs(**changed))


async def test_an_outside_issuers_clock_may_be_a_little_ahead(world: World) -> None:
    await world.tokens.verify(world.theirs(nbf=world.now() + 60))
    await refused(world, world.theirs(nbf=world.now() + 61))


async def test_an_outside_issuer_may_not_use_our_algorithm_or_an_unknown_key(world: World) -> None:
    await refused(world, world.theirs({"kid": "out-2"}))
    forged = ECKey.generate_key("P-256")
    claims = world.claims(iss=OUTSIDE, aud="restante")
    await refused(world, signed({"alg": "ES256", "kid": "out-1"}, claims, forged))


async def test_a_long_lived_token_is_looked_at_again_after_an_hour(world: World) -> None:
    token = world.theirs(exp=world.now() + 10**6)
    caller = await world.tokens.verify(token)
    assert caller.expires_at == world.now() + 3600
    world.clock.advance(3600)
    assert world.tokens.cached(token.encode(), world.now()) is None
    await world.tokens.verify(token)
