"""Routes that register a device: the device itself with the code from a person's approval, or its user.

A device that is registered already may register again without a code: with its refresh token, and with the session of
the person it belongs to.
"""

import base64
import binascii
import hashlib
from typing import Annotated
from uuid import UUID

import msgspec
from nacl.bindings import crypto_scalarmult

from restante.core.errors import BadInput, NotAllowed
from restante.database.database import Database
from restante.identity.devices.device_tokens import INT64_MAX, DeviceTokens
from restante.identity.devices.refresh_key import RefreshKey
from restante.identity.devices.refresh_tokens import RefreshRefusal
from restante.identity.grants import Area
from restante.updates.devices import device_sessions
from restante.updates.devices.device_sessions import DeviceSession, TokenPair, make_token_pair
from restante.updates.devices.devices import Device, DeviceDetails
from restante.updates.devices.routes_auth import refresh_error
from restante.updates.response_format import RESPONSE_FORMAT
from restante.web.access import AccessControl
from restante.web.origin import TEXT_LENGTH_MAX, user_agent_of
from restante.web.request import ApiRequest
from restante.web.routes import Access, Route, RouteGroup

TAG = "devices"
KEY_BYTES = 32

_EXAMPLE = {
    "device_public_id": "0191f6b0-7e1c-7d0a-9f5e-3c1f6f0a5b11",
    "dev_pk": "j0DFrbaPJWJK5bIU6nZ6bslNgp09e14a0bpvPiE4KF8=",
    "platform": "linux",
    "model": "kiosk-3",
    "app_version": "1.4.0",
    "name": "entrance",
}

Text = Annotated[str, msgspec.Meta(max_length=TEXT_LENGTH_MAX, pattern=r"^[^\x00-\x1f\x7f]*$")]


class RegistrationRequest(msgspec.Struct, frozen=True):
    """A device's description of itself. Clients in the field send more fields: unknown fields are ignored."""

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
    refresh_token: Annotated[str, msgspec.Meta(max_length=1024, pattern=r"^[!-~]*\Z")] | None = None


class RegistrationResponse(msgspec.Struct, frozen=True):
    device: Device
    session: TokenPair


class RegistrationRoutes:
    def __init__(
        self,
        database: Database,
        access_control: AccessControl,
        tokens: DeviceTokens,
        refresh_key: RefreshKey,
        *,
        refresh_token_seconds: int,
    ) -> None:
        self._database = database
        self._access_control = access_control
        self._tokens = tokens
        self._refresh_key = refresh_key
        self._refresh_token_seconds = refresh_token_seconds

    def routes(self) -> list[Route]:
        group = RouteGroup(TAG, RESPONSE_FORMAT, area=Area.updates)
        return [
            group.post(
                "/apiv1/device/registration",
                self.register_itself,
                Access.open,
                "Register a device with the code from a person's approval, or again with its refresh token.",
                errors=(400, 401, 403, 404),
                examples=({**_EXAMPLE, "user_id": 1, "registration_code": "f2Xk3J9-registration-code"},),
            ),
            group.post(
                "/apiv1/users/{user_id}/devices",
                self.register_for_user,
                Access.operate,
                "Register a device for a user.",
                errors=(400, 401, 403, 404),
                examples=(_EXAMPLE,),
            ),
        ]

    async def register_itself(self, request: ApiRequest, body: RegistrationRequest) -> RegistrationResponse:
        if not body.registration_code:
            return await self._register_again(request, body)
        session = await self._database.write(
            device_sessions.register_with_code,
            body.registration_code,
            body.user_id,
            _details(request, body),
            self._refresh_key,
            self._refresh_token_seconds,
        )
        return self._response(session)

    async def _register_again(self, request: ApiRequest, body: RegistrationRequest) -> RegistrationResponse:
        if not body.refresh_token:
            raise BadInput("registration_code", "a code: it is required without a session and a refresh_token")
        person = await self._access_control.operator_of(request.http)
        if body.user_id not in (None, person.user_id):
            raise NotAllowed("the session is another user's")
        session = await self._database.write(
            device_sessions.register_again,
            person.user_id,
            body.refresh_token,
            _details(request, body),
            self._refresh_key,
            self._refresh_token_seconds,
        )
        if isinstance(session, RefreshRefusal):
            raise refresh_error(session)
        return self._response(session)

    async def register_for_user(self, request: ApiRequest, body: RegistrationRequest) -> RegistrationResponse:
        user_id = request.path_id("user_id")
        if body.user_id not in (None, user_id):
            raise BadInput("user_id", "the user of the path")
        session = await self._database.write(
            device_sessions.register_for_user,
            user_id,
            _details(request, body),
            self._refresh_key,
            self._refresh_token_seconds,
        )
        return self._response(session)

    def _response(self, session: DeviceSession) -> RegistrationResponse:
        device = session.device
        return RegistrationResponse(
            device, make_token_pair(self._tokens, device.user_id, device.id, session.refresh_token, session.generation)
        )


def _details(request: ApiRequest, body: RegistrationRequest) -> DeviceDetails:
    key = _public_key(body.dev_pk)
    return DeviceDetails(
        device_public_id=str(body.device_public_id),
        dev_pk=key,
        device_keyfp=hashlib.blake2b(key, digest_size=32).digest(),
        platform=body.platform,
        model=body.model,
        app_version=body.app_version,
        name=body.name,
        ip=body.ip if body.ip is not None else request.address,
        user_agent=body.user_agent if body.user_agent is not None else user_agent_of(request.http),
    )


def _public_key(text: str) -> bytes:
    """The X25519 key; raises BadInput. Everyone could read data that is sealed to a point of low order."""
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
