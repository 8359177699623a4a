"""Registering a device: by itself, with the code a person's approval gave it, or by its user."""

import base64
import binascii
import hashlib
from typing import Annotated
from uuid import UUID

import msgspec
from nacl.bindings import crypto_scalarmult

from restante.core.errors import BadInput
from restante.database.database import Database
from restante.identity import refresh_tokens
from restante.identity.device_tokens import INT64_MAX, DeviceTokens
from restante.identity.refresh_key import RefreshKey
from restante.updates import device_sessions
from restante.updates.device_sessions import Registered
from restante.updates.devices import Details, Device
from restante.updates.session_wire import Session, session_of
from restante.updates.wire import SHAPE
from restante.web.ask import Ask
from restante.web.origin import TEXT_LENGTH_MAX, address_of, user_agent_of
from restante.web.routes import Access, Route

TAG = "devices"
KEY_BYTES = 32

Text = Annotated[str, msgspec.Meta(max_length=TEXT_LENGTH_MAX, pattern=r"^[^\x00-\x1f\x7f]*$")]


class Registration(msgspec.Struct, frozen=True):
    """What a device says about itself. Field clients send more than is asked: the rest is not looked at."""

    device_public_id: UUID
    dev_pk: Annotated[str, msgspec.Meta(max_length=64)]
    platform: Text | None = None
    model: Text | None = None
    app_version: Text | None = None
    name: Text | None = None
    ip: Text | None = None
    user_agent: Text | None = None
    user_id: Annotated[int, msgspec.Meta(ge=1, le=INT64_MAX)] | None = None
    registration_code: Annotated[str, msgspec.Meta(max_length=256)] | None = None


class RegisteredDevice(msgspec.Struct, frozen=True):
    device: Device
    session: Session


class RegistrationRoutes:
    def __init__(
        self,
        database: Database,
        tokens: DeviceTokens,
        refresh_key: RefreshKey,
        *,
        refresh_token_seconds: int = refresh_tokens.REFRESH_TOKEN_SECONDS,
    ) -> None:
        self._database = database
        self._tokens = tokens
        self._refresh_key = refresh_key
        self._refresh_token_seconds = refresh_token_seconds

    def routes(self) -> list[Route]:
        return [
            Route(
                "POST",
                "/apiv1/device/registration",
                self.register_itself,
                Access.open,
                "A device registers with the code that a person's approval gave it.",
                SHAPE,
                TAG,
                refusals=(400, 401, 403),
            ),
            Route(
                "POST",
                "/apiv1/users/{user_id}/devices",
                self.register_for_user,
                Access.operate,
                "A user registers a device.",
                SHAPE,
                TAG,
                refusals=(400, 401, 403, 404),
            ),
        ]

    async def register_itself(self, ask: Ask, body: Registration) -> RegisteredDevice:
        if not body.registration_code:
            raise BadInput("registration_code", "a value, it is required")
        registered = await self._database.write(
            device_sessions.register_with_code,
            body.registration_code,
            body.user_id,
            _details(ask, body),
            self._refresh_key,
            self._refresh_token_seconds,
        )
        return self._answer(registered)

    async def register_for_user(self, ask: Ask, body: Registration) -> RegisteredDevice:
        user_id = ask.path_id("user_id")
        if body.user_id not in (None, user_id):
            raise BadInput("user_id", "the user of the path")
        registered = await self._database.write(
            device_sessions.register_for_user,
            user_id,
            _details(ask, body),
            self._refresh_key,
            self._refresh_token_seconds,
        )
        return self._answer(registered)

    def _answer(self, registered: Registered) -> RegisteredDevice:
        device = registered.device
        session = session_of(self._tokens, device.user_id, device.id, registered.refresh_token)
        return RegisteredDevice(device, session)


def _details(ask: Ask, body: Registration) -> Details:
    key = _public_key(body.dev_pk)
    return Details(
        device_public_id=str(body.device_public_id),
        dev_pk=key,
        device_keyfp=hashlib.blake2b(key, digest_size=32).digest(),
        platform=body.platform,
        model=body.model,
        app_version=body.app_version,
        name=body.name,
        ip=body.ip if body.ip is not None else address_of(ask.request),
        user_agent=body.user_agent if body.user_agent is not None else user_agent_of(ask.request),
    )


def _public_key(text: str) -> bytes:
    """The X25519 key, or BadInput. What is sealed to a point of low order can be read by everybody."""
    try:
        key = base64.b64decode(text, validate=True)
    except (ValueError, binascii.Error):
        key = b""
    if len(key) != KEY_BYTES:
        raise BadInput("dev_pk", f"base64 of a {KEY_BYTES}-byte X25519 public key")
    try:
        crypto_scalarmult(bytes(KEY_BYTES), key)
    except RuntimeError:
        raise BadInput("dev_pk", "an X25519 public key that is not of low order") from None
    return key
