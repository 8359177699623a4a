"""A small world for these tests: two users, devices with real keys, a real outbox, routes behind the gate."""

from base64 import b64decode
from typing import Any, NamedTuple
from uuid import uuid4

import httpx
import msgspec
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from nacl.public import PrivateKey, SealedBox

from restante.database.connection import Connection
from restante.database.database import Database
from restante.database.queries import Query
from restante.delivery import outbox
from restante.delivery.signals import Signal
from restante.identity import api_keys, users
from restante.identity.callers import Role
from restante.identity.device_tokens import DeviceTokens
from restante.identity.issuers import OutsideIssuers
from restante.identity.master_key import MasterKey
from restante.identity.signing_keys import SigningKeys
from restante.updates import authorities, certificates, issuing
from restante.updates.accounts import Account
from restante.updates.accounts import add as add_account
from restante.updates.authorities import Authority, SealedAuthority
from restante.updates.authority_wishes import AuthorityWish, fulfil_wish
from restante.updates.certificates import CertificateDetail
from restante.updates.routes_authorities import AccountRoutes, AuthorityRoutes
from restante.updates.routes_certificates import CertificateRoutes
from restante.updates.routes_install import InstallRoutes
from restante.updates.routes_self import SelfRoutes
from restante.updates.routes_signals import SignalRoutes
from restante.updates.sealing import AUTHORITY_KEY_PURPOSE, key_fingerprint
from restante.updates.wire import SHAPE
from restante.updates.x509 import at_moment
from restante.web.access import Gate
from restante.web.application import build_application

_ADD_DEVICE = Query(
    "add_device",
    "INSERT INTO user_devices (user_id, device_public_id, dev_pk, device_keyfp, created_at, updated_at) "
    "VALUES (:user_id, :public_id, :dev_pk, :keyfp, 0, 0) RETURNING id",
)
_REVOKE_DEVICE = Query("revoke_device", "UPDATE user_devices SET revoked_at = 1 WHERE id = :device_id")
_OUTBOX = Query("outbox", "SELECT payload FROM device_update_outbox WHERE device_id = :device_id ORDER BY id")


class Told(Exception):
    """Raised by an emit that refuses: whatever the same transaction changed must be gone."""


class OwnedDevice(NamedTuple):
    id: int
    private_key: PrivateKey

    @property
    def keyfp(self) -> bytes:
        return key_fingerprint(bytes(self.private_key.public_key))


def refuse_to_emit(_conn: Connection, _device_id: int, _signal: Signal) -> None:
    raise Told()


def moment(conn: Connection) -> int:
    return conn.now_ms


class World:
    emit = staticmethod(outbox.enqueue)

    def __init__(self, database: Database) -> None:
        self.database = database
        self.master_key = MasterKey(bytes(range(32)))
        self.user_id = database.write_now(users.add, "owner@example.com", "x", Role.operator)
        self.other_id = database.write_now(users.add, "other@example.com", "x", Role.operator)

    def add_device(self, user_id: int | None = None) -> OwnedDevice:
        key = PrivateKey.generate()
        row = self.query(
            _ADD_DEVICE,
            user_id=user_id or self.user_id,
            public_id=str(uuid4()),
            dev_pk=bytes(key.public_key),
            keyfp=key_fingerprint(bytes(key.public_key)),
        )[0]
        return OwnedDevice(row["id"], key)

    def revoke_device(self, device: OwnedDevice) -> None:
        self.query(_REVOKE_DEVICE, device_id=device.id)

    def query(self, query: Query | str, **parameters: Any) -> list[Any]:
        asked = query if isinstance(query, Query) else Query("asked", query)
        return self.database.write_now(lambda conn: conn.all(asked, **parameters))

    def signals(self, device: OwnedDevice) -> list[dict[str, Any]]:
        """What the device was told, without the times."""
        rows = self.query(_OUTBOX, device_id=device.id)
        told = [msgspec.json.decode(row["payload"]) for row in rows]
        return [{"type": signal["type"], "ref": signal["ref"]} for signal in told]

    def signal_types(self, device: OwnedDevice) -> list[str]:
        return [signal["type"] for signal in self.signals(device)]

    def add_authority(self, user_id: int | None = None, **wish: Any) -> Authority:
        now = at_moment(self.database.read_now(moment))
        wished = AuthorityWish(**{"name": "Workshop CA", **wish})
        keyed = fulfil_wish(wished, now)
        sealed = self.master_key.seal(keyed.private_key_der, AUTHORITY_KEY_PURPOSE)
        made = SealedAuthority(wished.name, keyed.certificate, sealed)
        return self.database.write_now(authorities.add, user_id or self.user_id, made)

    def add_account(self, ca_id: int | None, user_id: int | None = None) -> Account:
        return self.database.write_now(
            add_account, user_id or self.user_id, "account", "ops@example.com", "self", ca_id
        )

    def add_certificate(self, acct_id: int | None = None, *names: str, user_id: int | None = None) -> CertificateDetail:
        owner = user_id or self.user_id
        account = acct_id or self.add_account(self.add_authority(owner).id, owner).id
        return self.database.write_now(certificates.create, owner, list(names or ("www.example.com",)), account)

    def issue(self, cert_id: int, validity_seconds: int = 86400) -> CertificateDetail:
        plan = self.database.read_now(issuing.plan, self.user_id, cert_id)
        material = issuing.carry_out(plan, self.master_key, validity_seconds)
        return self.database.write_now(issuing.store, self.emit, plan, material)


def decrypt_as_device(bundle: dict[str, Any], key: PrivateKey) -> bytes:
    """What a device does with a bundle, with libsodium and AES-GCM and nothing of ours."""
    data_key = SealedBox(key).decrypt(b64decode(bundle["enc_data_key_b64"]))
    sealed = b64decode(bundle["enc_privkey_b64"]) + b64decode(bundle["privkey_tag_b64"])
    return AESGCM(data_key).decrypt(b64decode(bundle["privkey_nonce_b64"]), sealed, None)


class Site:
    """The routes behind the real gate."""

    def __init__(self, world: World, client: httpx.AsyncClient, tokens: DeviceTokens) -> None:
        self.world = world
        self._client = client
        self._tokens = tokens
        self._key = world.database.write_now(api_keys.create, "tests", Role.operator)[1]
        self.path = f"/apiv1/users/{world.user_id}"

    async def call(self, method: str, path: str, body: Any = None, **headers: str) -> httpx.Response:
        """As an operator, on the owner's things unless the path says otherwise."""
        full = path if path.startswith("/apiv1") else self.path + path
        sent = {"authorization": f"Bearer {self._key}", **_dashed(headers)}
        if body is None:
            return await self._client.request(method, full, headers=sent)
        return await self._client.request(method, full, headers=sent, json=body)

    async def as_device(
        self, device: OwnedDevice, method: str, path: str, body: Any = None, **headers: str
    ) -> httpx.Response:
        token = self._tokens.mint(self.world.user_id, device.id)
        sent = {"authorization": f"Bearer {token}", **_dashed(headers)}
        return await self._client.request(method, "/apiv1/devices/self" + path, headers=sent, json=body)


async def open_site(world: World) -> Site:
    tokens = DeviceTokens(world.database, SigningKeys(world.database, world.master_key), OutsideIssuers())
    await tokens.start()
    database, emit, master_key = world.database, world.emit, world.master_key
    routes = [
        *InstallRoutes(database, emit).routes(),
        *SignalRoutes(database, emit).routes(),
        *AuthorityRoutes(database, emit, master_key).routes(),
        *AccountRoutes(database).routes(),
        *CertificateRoutes(database, emit, master_key).routes(),
        *SelfRoutes(database).routes(),
    ]
    app = build_application(routes, Gate(database, tokens), SHAPE)
    client = httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://restante.test")
    return Site(world, client, tokens)


def _dashed(headers: dict[str, str]) -> dict[str, str]:
    return {name.replace("_", "-"): value for name, value in headers.items()}
