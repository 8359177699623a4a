"""People and devices for tests, created through the product's own functions."""

import hashlib
from functools import cache
from uuid import uuid4

from nacl.public import PrivateKey

from restante.database.database import Database
from restante.identity.callers import Role
from restante.identity.devices.device_codes import DeviceCodeKey, DeviceCodeLimits
from restante.identity.master_key import MasterKey
from restante.identity.people import passwords, users
from restante.updates.devices import devices
from restante.updates.devices.devices import DeviceDetails

PASSWORD = "correct horse battery"
SESSION_SECONDS = 12 * 3600
MONTH_SECONDS = 30 * 86_400
CODE_KEY = DeviceCodeKey(MasterKey(bytes(32)))
CODE_LIMITS = DeviceCodeLimits(per_address=500, total=10_000)


@cache
def password_hash() -> str:
    return passwords.hash_password(PASSWORD)


def add_user(database: Database, email: str = "ada@example.com", role: Role = Role.operator) -> int:
    return database.write_now(users.add, email, password_hash(), role)


def details(public_id: str | None = None, key: bytes | None = None, **fields: str) -> DeviceDetails:
    dev_pk = key or bytes(PrivateKey.generate().public_key)
    fingerprint = hashlib.blake2b(dev_pk, digest_size=32).digest()
    return DeviceDetails(public_id or str(uuid4()), dev_pk, fingerprint, **fields)


def add_device(database: Database, user_id: int) -> int:
    return database.write_now(devices.register, user_id, details()).id
