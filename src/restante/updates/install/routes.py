"""Operator routes for install configs. Versions are entity tags: sent as `"7"`, accepted bare, quoted and with `W/`."""

from typing import Annotated, Any

import msgspec
from msgspec import Meta

from restante.core.decoding import INT64_MAX, parse_int
from restante.core.errors import BadInput
from restante.database.database import Database
from restante.database.paging import Page
from restante.delivery.log.signals import Emit
from restante.identity.grants import Area
from restante.updates.install import install_configs
from restante.updates.install.install_configs import (
    ConfigEdit,
    ConfigVersion,
    ConfigVersionDetail,
    InstallConfig,
    InstallConfigView,
)
from restante.updates.install.install_items import checked_installs
from restante.updates.response_format import RESPONSE_FORMAT
from restante.web.paging import PAGE_QUERY, page_request_of
from restante.web.request import ApiRequest
from restante.web.response import ApiResponse
from restante.web.routes import Access, Header, ResponseInfo, Route, RouteGroup

PATH = "/apiv1/users/{user_id}/devices/{device_id}/install-config"
HISTORY = PATH + "/history"
VERSION = HISTORY + "/{version}"
RESTORE = PATH + "/restore"

# Only SQLite stores NUL characters in text, and no shell reads them.
ChangeNote = Annotated[str, Meta(max_length=1000, pattern=r"^[^\x00]*\Z")]
Script = Annotated[str, Meta(max_length=65536, pattern=r"^[^\x00]*\Z")]

ETAG = Header("ETag", "The version of the install config.", {"type": "string", "examples": ['"7"']}, required=True)
_CONFIG_RESPONSE = ResponseInfo(200, InstallConfigView, (ETAG,))
_IF_MATCH = Header(
    "If-Match",
    "The version that the client means to change; 0 if there is none yet. Another version is refused with 409.",
    {"type": "string", "pattern": '^(W/)?"?[0-9]{1,18}"?$', "examples": ['"7"']},
)
_EXAMPLE = {
    "installs": [{"id": "site", "type": "copy", "from": ["fullchain.pem"], "to": ["/etc/ssl/site.pem"]}],
    "change_note": "new path",
}


class InstallConfigRequest(msgspec.Struct, forbid_unknown_fields=True):
    installs: list[dict[str, Any]]
    change_note: ChangeNote | None = None
    after_update_script: Script | None = None


class RestoreRequest(msgspec.Struct, forbid_unknown_fields=True):
    version: Annotated[int, Meta(ge=1, le=INT64_MAX)]
    change_note: ChangeNote | None = None


class InstallRoutes:
    def __init__(self, database: Database, emit: Emit) -> None:
        self._database = database
        self._emit = emit

    def routes(self) -> list[Route]:
        group = RouteGroup("install configs", RESPONSE_FORMAT, area=Area.updates)
        shown = (_CONFIG_RESPONSE,)
        return [
            group.get(PATH, self.get, Access.read, "Show the device's install config", errors=(404,), responses=shown),
            group.put(
                PATH,
                self.put,
                Access.operate,
                "Replace the device's install config",
                errors=(404, 409),
                headers=(_IF_MATCH,),
                examples=(_EXAMPLE,),
                responses=shown,
            ),
            group.get(HISTORY, self.history, Access.read, "List the versions, oldest first", query=PAGE_QUERY),
            group.get(VERSION, self.version, Access.read, "Show a version with its items", errors=(404,)),
            group.post(
                RESTORE,
                self.restore,
                Access.operate,
                "Restore an old version",
                errors=(404, 409),
                headers=(_IF_MATCH,),
                examples=({"version": 1},),
                responses=shown,
            ),
        ]

    async def get(self, request: ApiRequest) -> ApiResponse:
        user_id, device_id = request.path_id("user_id"), request.path_id("device_id")
        return config_response(await self._database.read(install_configs.current_of_user, user_id, device_id))

    async def put(self, request: ApiRequest, body: InstallConfigRequest) -> ApiResponse:
        checked = checked_installs(body.installs)
        edit = _edit(request, body.change_note)
        return config_response(
            await self._database.write(install_configs.put, self._emit, edit, checked, body.after_update_script)
        )

    async def restore(self, request: ApiRequest, body: RestoreRequest) -> ApiResponse:
        edit = _edit(request, body.change_note)
        return config_response(await self._database.write(install_configs.restore, self._emit, edit, body.version))

    async def history(self, request: ApiRequest) -> Page[ConfigVersion]:
        user_id, device_id = request.path_id("user_id"), request.path_id("device_id")
        return await self._database.read(install_configs.history, user_id, device_id, page_request_of(request))

    async def version(self, request: ApiRequest) -> ConfigVersionDetail:
        user_id, device_id = request.path_id("user_id"), request.path_id("device_id")
        return await self._database.read(install_configs.version_detail, user_id, device_id, request.path_id("version"))


def config_response(config: InstallConfig | InstallConfigView) -> ApiResponse:
    return RESPONSE_FORMAT.success(config).with_headers(version_etag(config.version))


def version_etag(version: int) -> tuple[bytes, bytes]:
    return (b"etag", b'"%d"' % version)


def is_known(request: ApiRequest, version: int) -> bool:
    """Whether If-None-Match states that the client has this version."""
    tags = [_bare(tag) for value in request.http.headers.getlist("if-none-match") for tag in value.split(",")]
    return "*" in tags or str(version) in tags


def expected_version(request: ApiRequest) -> int | None:
    """The version in If-Match, which the client means to change. None: any; 0: there is no version yet."""
    values = request.http.headers.getlist("if-match")
    if not values:
        return None
    if len(values) > 1:
        raise BadInput("If-Match", "at most one value")
    return parse_int("If-Match", _bare(values[0]), 0, INT64_MAX)


def _bare(tag: str) -> str:
    tag = tag.strip().removeprefix("W/")
    return tag[1:-1] if len(tag) > 1 and tag[0] == tag[-1] == '"' else tag


def _edit(request: ApiRequest, change_note: str | None) -> ConfigEdit:
    return ConfigEdit(
        request.path_id("user_id"), request.path_id("device_id"), request.actor, change_note, expected_version(request)
    )
