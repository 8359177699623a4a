"""The operator route by which an application sends a device a signal of a type it defines itself."""

from typing import Annotated, Any

import msgspec
from msgspec import Meta

from restante.database.connection import Connection
from restante.database.database import Database
from restante.delivery.log.signals import TYPE_CHARACTERS_MAX, Emit, check_signal
from restante.identity.grants import Area
from restante.updates.devices.ownership import get_active_device
from restante.updates.response_format import RESPONSE_FORMAT
from restante.web.request import ApiRequest
from restante.web.routes import Access, Route


class SignalRequest(msgspec.Struct, forbid_unknown_fields=True):
    type: Annotated[str, Meta(min_length=1, max_length=TYPE_CHARACTERS_MAX)]
    ref: dict[str, Any]


class SentSignal(msgspec.Struct):
    device_id: int
    type: str
    ts_ms: int


def send_signal(conn: Connection, emit: Emit, user_id: int, device_id: int, own: SignalRequest) -> SentSignal:
    get_active_device(conn, user_id, device_id)
    signal = check_signal(own.type, conn.now_ms, own.ref)
    emit(conn, device_id, signal)
    return SentSignal(device_id, signal.type, signal.ts_ms)


class SignalRoutes:
    def __init__(self, database: Database, emit: Emit) -> None:
        self._database = database
        self._emit = emit

    def routes(self) -> list[Route]:
        return [
            Route(
                "POST",
                "/apiv1/users/{user_id}/devices/{device_id}/signals",
                self.send,
                Access.operate,
                "Send the device a signal that the application defines",
                response_format=RESPONSE_FORMAT,
                tag="signals",
                status=202,
                errors=(404, 409),
                examples=({"type": "app.refresh", "ref": {"id": 7}},),
                area=Area.updates,
            )
        ]

    async def send(self, request: ApiRequest, body: SignalRequest) -> SentSignal:
        user_id, device_id = request.path_id("user_id"), request.path_id("device_id")
        return await self._database.write(send_signal, self._emit, user_id, device_id, body)
