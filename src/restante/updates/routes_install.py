"""Operator routes for install configs."""

from functools import partial
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from restante.database.database import Database
from restante.delivery.signals import Emit
from restante.updates import install_configs
from restante.updates.etags import expected_version, version_etag
from restante.updates.install_configs import Edit, InstallConfig, PastContent, PastVersion
from restante.updates.install_items import checked_installs
from restante.updates.wire import SHAPE
from restante.web.answer import Answer
from restante.web.ask import INT64_MAX, Ask
from restante.web.paging import PAGE_QUERY, Page, window_of
from restante.web.routes import Access, Route

PATH = "/apiv1/users/{user_id}/devices/{device_id}/install-config"
HISTORY = PATH + "/history"
PAST = HISTORY + "/{version}"
RESTORE = PATH + "/restore"

# No engine but SQLite keeps a NUL in a text, and no shell reads one.
ChangeNote = Annotated[str, Meta(max_length=1000, pattern=r"^[^\x00]*\Z")]
Script = Annotated[str, Meta(max_length=65536, pattern=r"^[^\x00]*\Z")]


class NewInstallConfig(msgspec.Struct, forbid_unknown_fields=True):
    installs: list[dict[str, Any]]
    change_note: ChangeNote | None = None
    after_update_script: Script | None = None


class Restoration(msgspec.Struct, forbid_unknown_fields=True):
    version: Annotated[int, Meta(ge=1, le=INT64_MAX)]
    change_note: ChangeNote | None = None


class InstallRoutes:
    def __init__(self, database: Database, emit: Emit) -> None:
        self._database = database
        self._emit = emit

    def routes(self) -> list[Route]:
        row = partial(Route, shape=SHAPE, tag="install configs")
        return [
            row("GET", PATH, self.get, Access.read, "What the device is to install", refusals=(404,)),
            row("PUT", PATH, self.put, Access.operate, "Replace what it is to install", refusals=(404, 409)),
            row("GET", HISTORY, self.history, Access.read, "Every version, oldest first", query=PAGE_QUERY),
            row("GET", PAST, self.past, Access.read, "One version with its items", refusals=(404,)),
            row(
                "POST",
                RESTORE,
                self.restore,
                Access.operate,
                "Bring an old version back",
                refusals=(404, 409),
            ),
        ]

    async def get(self, ask: Ask) -> Answer:
        user_id, device_id = ask.path_id("user_id"), ask.path_id("device_id")
        return config_answer(await self._database.read(install_configs.current_of_user, user_id, device_id))

    async def put(self, ask: Ask, body: NewInstallConfig) -> Answer:
        checked = checked_installs(body.installs)
        edit = _edit(ask, body.change_note)
        return config_answer(
            await self._database.write(install_configs.put, self._emit, edit, checked, body.after_update_script)
        )

    async def restore(self, ask: Ask, body: Restoration) -> Answer:
        edit = _edit(ask, body.change_note)
        return config_answer(await self._database.write(install_configs.restore, self._emit, edit, body.version))

    async def history(self, ask: Ask) -> Page[PastVersion]:
        user_id, device_id = ask.path_id("user_id"), ask.path_id("device_id")
        return await self._database.read(install_configs.history, user_id, device_id, window_of(ask))

    async def past(self, ask: Ask) -> PastContent:
        user_id, device_id = ask.path_id("user_id"), ask.path_id("device_id")
        return await self._database.read(install_configs.past_content, user_id, device_id, ask.path_id("version"))


def config_answer(config: InstallConfig) -> Answer:
    return SHAPE.success(config).with_headers(version_etag(config.version))


def _edit(ask: Ask, change_note: str | None) -> Edit:
    return Edit(ask.path_id("user_id"), ask.path_id("device_id"), ask.actor, change_note, expected_version(ask))
