"""The operator route by which any application sends a device a signal of its own."""

from typing import Annotated, Any

import msgspec
from msgspec import Meta

from restante.database.connection import Connection
from restante.database.database import Database
from restante.delivery.signals import TYPE_CHARACTERS_MAX, Emit, checked_signal
from restante.updates.ownership import require_active_device
from restante.updates.wire import SHAPE
from restante.web.ask import Ask
from restante.web.routes import Access, Route


class OwnSignal(msgspec.Struct, forbid_unknown_fields=True):
    type: Annotated[str, Meta(min_length=1, max_length=TYPE_CHARACTERS_MAX)]
    ref: dict[str, Any]


class SentSignal(msgspec.Struct):
    device_id: int
    type: str
    ts_ms: int


def send(conn: Connection, emit: Emit, user_id: int, device_id: int, own: OwnSignal) -> SentSignal:
    require_active_device(conn, user_id, device_id)
    signal = checked_signal(own.type, conn.now_ms, own.ref)
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
                "Send the device a signal of the application's own",
                shape=SHAPE,
                tag="signals",
                status=202,
                refusals=(404, 409),
            )
        ]

    async def send(self, ask: Ask, body: OwnSignal) -> SentSignal:
        user_id, device_id = ask.path_id("user_id"), ask.path_id("device_id")
        return await self._database.write(send, self._emit, user_id, device_id, body)
