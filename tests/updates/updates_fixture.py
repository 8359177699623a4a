"""A small fleet: two users, devices with real keys, a real outbox, and the routes behind access control."""

from base64 import b64decode
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

import httpx
import msgspec
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from nacl.public import PrivateKey, SealedBox

from restante.database.connection import Connection
from restante.database.database import Database
from restante.database.queries import Query
from restante.delivery.log.signals import Signal
from restante.delivery.outbox import outbox
from restante.identity import api_keys
from restante.identity.callers import Role
from restante.identity.devices.device_tokens import DeviceTokens
from restante.identity.master_key import MasterKey
from restante.identity.people import users
from restante.identity.signing_keys import SigningKeys
from restante.updates.devices.routes_self import SelfRoutes
from restante.updates.devices.routes_signals import SignalRoutes
from restante.updates.install.routes import InstallRoutes
from restante.updates.pki import authorities, certificates, issuing
from restante.updates.pki.accounts import Account
from restante.updates.pki.accounts import add as add_account
from restante.updates.pki.authorities import Authority, SealedAuthority
from restante.updates.pki.ca_requests import AuthorityRequest, make_requested_authority
from restante.updates.pki.certificates import CertificateDetail
from restante.updates.pki.crypto.sealing import AUTHORITY_KEY_PURPOSE, key_fingerprint
from restante.updates.pki.crypto.x509 import utc_datetime
from restante.updates.pki.issuing import IssueRules
from restante.updates.pki.renewal.routes import ExpiryRoutes
from restante.updates.pki.revocation.routes import RevocationRoutes
from restante.updates.pki.routes_authorities import AccountRoutes, AuthorityRoutes
from restante.updates.pki.routes_certificates import CertificateRoutes
from restante.updates.response_format import RESPONSE_FORMAT
from restante.web.access import AccessControl
from tests.defaults import new_application, new_device_tokens

RULES = IssueRules("https://pki.example.com", 66)
CRL_HOURS = 24

_ADD_DEVICE = Query(
    "add_device",
    "INSERT INTO user_devices (user_id, device_public_id, dev_pk, device_keyfp, created_at, updated_at) "
    "VALUES (:user_id, :public_id, :dev_pk, :keyfp, 0, 0) RETURNING id",
)
_REVOKE_DEVICE = Query("revoke_device", "UPDATE user_devices SET revoked_at = 1 WHERE id = :device_id")
_OUTBOX = Query("outbox", "SELECT payload FROM device_update_outbox WHERE device_id = :device_id ORDER BY id")


class EmitRefused(Exception):
    """Raised by `refuse_to_emit`: the changes of the same transaction must be rolled back."""


@dataclass(frozen=True)
class FleetDevice:
    id: int
    private_key: PrivateKey

    @property
    def keyfp(self) -> bytes:
        return key_fingerprint(bytes(self.private_key.public_key))


def refuse_to_emit(_conn: Connection, _device_id: int, _signal: Signal) -> None:
    raise EmitRefused()


def read_now_ms(conn: Connection) -> int:
    return conn.now_ms


class DeviceFleet:
    emit = staticmethod(outbox.enqueue)

    def __init__(self, database: Database) -> None:
        self.database = database
        self.master_key = MasterKey(bytes(range(32)))
        self.user_id = database.write_now(users.add, "owner@example.com", "x", Role.operator)
        self.other_id = database.write_now(users.add, "other@example.com", "x", Role.operator)

    def add_device(self, user_id: int | None = None) -> FleetDevice:
        key = PrivateKey.generate()
        row = self.query(
            _ADD_DEVICE,
            user_id=user_id or self.user_id,
            public_id=str(uuid4()),
            dev_pk=bytes(key.public_key),
            keyfp=key_fingerprint(bytes(key.public_key)),
        )[0]
        return FleetDevice(row["id"], key)

    def revoke_device(self, device: FleetDevice) -> None:
        self.query(_REVOKE_DEVICE, device_id=device.id)

    def query(self, query: Query | str, **parameters: Any) -> list[Any]:
        named = query if isinstance(query, Query) else Query("test", query)
        return self.database.write_now(lambda conn: conn.all(named, **parameters))

    def signals(self, device: FleetDevice) -> list[dict[str, Any]]:
        """The signals for the device, without the times."""
        rows = self.query(_OUTBOX, device_id=device.id)
        signals = [msgspec.json.decode(row["payload"]) for row in rows]
        return [{"type": signal["type"], "ref": signal["ref"]} for signal in signals]

    def signal_types(self, device: FleetDevice) -> list[str]:
        return [signal["type"] for signal in self.signals(device)]

    def add_authority(self, user_id: int | None = None, **fields: Any) -> Authority:
        now = utc_datetime(self.database.read_now(read_now_ms))
        request = AuthorityRequest(**{"name": "Workshop CA", **fields})
        made = make_requested_authority(request, now)
        sealed_key = self.master_key.seal(made.private_key_der, AUTHORITY_KEY_PURPOSE)
        sealed = SealedAuthority(request.name, made.certificate, sealed_key)
        return self.database.write_now(authorities.add, user_id or self.user_id, sealed)

    def add_account(self, ca_id: int | None, user_id: int | None = None) -> Account:
        return self.database.write_now(
            add_account, user_id or self.user_id, "account", "ops@example.com", "self", ca_id
        )

    def add_certificate(self, acct_id: int | None = None, *names: str, user_id: int | None = None) -> CertificateDetail:
        owner = user_id or self.user_id
        account = acct_id or self.add_account(self.add_authority(owner).id, owner).id
        return self.database.write_now(certificates.create, owner, list(names or ("www.example.com",)), account)

    def issue(self, cert_id: int, validity_seconds: int = 86400) -> CertificateDetail:
        plan = self.database.read_now(issuing.plan, self.user_id, cert_id, RULES)
        issued = issuing.make_certificate(plan, self.master_key, validity_seconds)
        return self.database.write_now(issuing.store, self.emit, plan, issued)


def decrypt_as_device(bundle: dict[str, Any], key: PrivateKey) -> bytes:
    """Open a bundle as a device does, with libsodium and AES-GCM and no code of the server."""
    data_key = SealedBox(key).decrypt(b64decode(bundle["enc_data_key_b64"]))
    sealed = b64decode(bundle["enc_privkey_b64"]) + b64decode(bundle["privkey_tag_b64"])
    return AESGCM(data_key).decrypt(b64decode(bundle["privkey_nonce_b64"]), sealed, None)


class UpdatesApi:
    """The routes behind the real access control."""

    def __init__(self, fleet: DeviceFleet, client: httpx.AsyncClient, tokens: DeviceTokens) -> None:
        self.fleet = fleet
        self._client = client
        self._tokens = tokens
        self._key = fleet.database.write_now(api_keys.create, "tests", Role.operator)[1]
        self.path = f"/apiv1/users/{fleet.user_id}"

    async def call(self, method: str, path: str, body: Any = None, **headers: str) -> httpx.Response:
        """Call as an operator. A path without /apiv1 is relative to the fleet's user."""
        full = path if path.startswith(("/apiv1", "/crl")) else self.path + path
        sent = {"authorization": f"Bearer {self._key}", **_dashed(headers)}
        if body is None:
            return await self._client.request(method, full, headers=sent)
        return await self._client.request(method, full, headers=sent, json=body)

    async def as_device(
        self, device: FleetDevice, method: str, path: str, body: Any = None, **headers: str
    ) -> httpx.Response:
        token = self._tokens.mint(self.fleet.user_id, device.id)
        sent = {"authorization": f"Bearer {token}", **_dashed(headers)}
        return await self._client.request(method, "/apiv1/devices/self" + path, headers=sent, json=body)


async def open_api(fleet: DeviceFleet) -> UpdatesApi:
    tokens = new_device_tokens(fleet.database, SigningKeys(fleet.database, fleet.master_key))
    await tokens.start()
    database, emit, master_key = fleet.database, fleet.emit, fleet.master_key
    routes = [
        *InstallRoutes(database, emit).routes(),
        *SignalRoutes(database, emit).routes(),
        *AuthorityRoutes(database, emit, master_key).routes(),
        *AccountRoutes(database).routes(),
        *CertificateRoutes(database, emit, master_key, RULES).routes(),
        *ExpiryRoutes(database).routes(),
        *RevocationRoutes(database, master_key, CRL_HOURS).routes(),
        *SelfRoutes(database).routes(),
    ]
    app = new_application(routes, AccessControl(database, tokens), RESPONSE_FORMAT)
    client = httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://restante.test")
    return UpdatesApi(fleet, client, tokens)


def _dashed(headers: dict[str, str]) -> dict[str, str]:
    return {name.replace("_", "-"): value for name, value in headers.items()}
