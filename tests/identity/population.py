"""People and devices for tests, made the way the product makes them."""

import hashlib
from functools import cache
from uuid import uuid4

from nacl.public import PrivateKey

from restante.database.database import Database
from restante.identity import passwords, users
from restante.identity.callers import Role
from restante.updates import devices
from restante.updates.devices import Details

PASSWORD = "correct horse battery"


@cache
def password_hash() -> str:
    return passwords.hash_password(PASSWORD)


def add_user(database: Database, email: str = "ada@example.com", role: Role = Role.operator) -> int:
    return database.write_now(users.add, email, password_hash(), role)


def details(public_id: str | None = None, key: bytes | None = None, **said: str) -> Details:
    dev_pk = key or bytes(PrivateKey.generate().public_key)
    fingerprint = hashlib.blake2b(dev_pk, digest_size=32).digest()
    return Details(public_id or str(uuid4()), dev_pk, fingerprint, **said)


def add_device(database: Database, user_id: int) -> int:
    return database.write_now(devices.register, user_id, details()).id
