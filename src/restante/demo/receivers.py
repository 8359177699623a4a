"""The two event clients with a problem: one polls rarely and takes one event at a time, one expects another issuer.

The others are `restante-agent receiver` (`programs.py`). All authenticate with a key of their own.
"""

import asyncio
import base64
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat
from restante_client import EventReceiver, PrivateKeyJwt, ReceiverOptions
from restante_client.errors import Unavailable, Unreachable

from restante.demo.operators import plain_http

ALGORITHM = "EdDSA"
KEY_ID = "demo"
SLOW_SECONDS = 40.0
# The issuer of the bank's sandbox, which was not changed for production.
WRONG_ISSUER = "https://sandbox.bank.example"


@dataclass(frozen=True, slots=True)
class ClientKey:
    pem: bytes
    jwks: dict[str, Any]

    @classmethod
    def make(cls) -> "ClientKey":
        key = Ed25519PrivateKey.generate()
        raw = key.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)
        x = base64.urlsafe_b64encode(raw).decode().rstrip("=")
        jwk = {"kty": "OKP", "crv": "Ed25519", "kid": KEY_ID, "use": "sig", "alg": ALGORITHM, "x": x}
        return cls(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()), {"keys": [jwk]})


async def run_slow(url: str, client_id: str, key: ClientKey, folder: Path) -> None:
    options = ReceiverOptions(events_max=1, http=plain_http())
    async with EventReceiver(url, credentials(client_id, key), folder, options) as receiver:
        while True:
            await _poll(receiver)
            await asyncio.sleep(SLOW_SECONDS)


async def run_misconfigured(url: str, client_id: str, key: ClientKey, folder: Path) -> None:
    """Polls in time, and refuses every token: the server keeps them as errored until an operator decides."""
    options = ReceiverOptions(issuer=WRONG_ISSUER, http=plain_http())
    async with EventReceiver(url, credentials(client_id, key), folder, options) as receiver:
        while True:
            await _poll(receiver)


async def _poll(receiver: EventReceiver) -> None:
    try:
        await receiver.poll(is_immediate=receiver.has_errors)
        await receiver.handle_stored(lambda _event: None)
    except (Unavailable, Unreachable):
        await asyncio.sleep(5)


def credentials(client_id: str, key: ClientKey) -> PrivateKeyJwt:
    return PrivateKeyJwt(client_id, key.pem, ALGORITHM, KEY_ID)
