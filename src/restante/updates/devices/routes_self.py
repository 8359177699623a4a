"""Routes for a device's own things: it fetches its install config, certificates and authorities, and reports."""

from typing import Annotated, Any

import msgspec
import structlog
from msgspec import Meta

from restante.core.errors import BadInput
from restante.database.database import Database
from restante.database.errors import DatabaseError
from restante.updates.devices import notifications
from restante.updates.install import install_configs
from restante.updates.install.install_configs import InstallConfig
from restante.updates.install.routes import ETAG, config_response, is_known, version_etag
from restante.updates.pki import assignments, authorities
from restante.updates.pki.assignments import CertificateBundle, DeviceCertificate
from restante.updates.pki.authorities import AuthorityBundle
from restante.updates.response_format import RESPONSE_FORMAT
from restante.web.request import ApiRequest
from restante.web.response import NO_STORE, ApiResponse, Headers
from restante.web.routes import Access, Header, Query, ResponseInfo, Route, RouteGroup

log = structlog.get_logger()

SELF = "/apiv1/devices/self"
CERTIFICATE = "/certificates/{certificate_id}"

_PACK = Query("pack", "`download`: the same content, as a file to save", {"type": "string", "enum": ["download"]})

_IF_NONE_MATCH = Header("If-None-Match", "The version that the device has; if it is the current one, 304 is sent.")
_DOWNLOAD = (Header("Content-Disposition", "The name of the file, with `pack=download`."),)
_BUNDLE = ResponseInfo(200, CertificateBundle, _DOWNLOAD)
_NOTIFICATION = {"schema": notifications.SCHEMA, "events": [{"type": "started", "agent_version": "1.4.0"}]}


class NotifyRequest(msgspec.Struct):
    """Agents in the field send more fields than these: unknown fields are ignored."""

    schema: Annotated[str, Meta(extra_json_schema={"enum": [notifications.SCHEMA]})]
    events: list[Any]


class SelfRoutes:
    def __init__(self, database: Database) -> None:
        self._database = database

    def routes(self) -> list[Route]:
        group = RouteGroup("device", RESPONSE_FORMAT, prefix=SELF)
        return [
            group.get(
                "/install-config",
                self.install_config,
                Access.device,
                "Show this device's install config",
                errors=(404,),
                headers=(_IF_NONE_MATCH,),
                responses=(
                    ResponseInfo(200, InstallConfig, (ETAG,)),
                    ResponseInfo(304, headers=(ETAG,), meaning="The device has this version."),
                ),
            ),
            group.get(
                CERTIFICATE, self.certificate, Access.device, "Show a certificate of this device", errors=(404, 409)
            ),
            *(
                group.get(
                    CERTIFICATE + suffix,
                    self.bundle,
                    Access.device,
                    "Fetch a certificate with its key, encrypted for this device",
                    query=(_PACK,),
                    errors=(404, 409),
                    responses=(_BUNDLE,),
                )
                for suffix in ("/deploy-materials", "/bundle")
            ),
            group.get(
                "/cas/{ca_id}/bundle",
                self.ca_bundle,
                Access.device,
                "Fetch an authority that this device must trust",
                query=(_PACK,),
                errors=(404,),
                responses=(ResponseInfo(200, AuthorityBundle, _DOWNLOAD),),
            ),
            group.post(
                "/notify",
                self.notify,
                Access.device,
                "Report the agent's events",
                status=204,
                examples=(_NOTIFICATION,),
            ),
        ]

    async def install_config(self, request: ApiRequest) -> ApiResponse:
        device_id = request.device.device_id
        config, is_fetched = await self._database.read(install_configs.fetched_by_device, device_id)
        if not is_fetched:
            await self._mark_fetched(device_id, config.version)
        if is_known(request, config.version):
            return ApiResponse(304, (NO_STORE, version_etag(config.version)))
        return config_response(config)

    async def _mark_fetched(self, device_id: int, version: int) -> None:
        """Once for each version. A device gets its config even while nothing can be written."""
        try:
            await self._database.write(install_configs.mark_fetched, device_id, version)
        except DatabaseError as error:
            log.error("the fetch of an install config was not recorded", device_id=device_id, error=str(error))

    async def certificate(self, request: ApiRequest) -> DeviceCertificate:
        cert_id = request.path_id("certificate_id")
        return await self._database.read(assignments.device_certificate, request.device.device_id, cert_id)

    async def bundle(self, request: ApiRequest) -> ApiResponse:
        headers = _download_headers(request, "certificate", "certificate_id")
        cert_id = request.path_id("certificate_id")
        bundle = await self._database.read(assignments.bundle, request.device.device_id, cert_id)
        return RESPONSE_FORMAT.success(bundle).with_headers(*headers)

    async def ca_bundle(self, request: ApiRequest) -> ApiResponse:
        headers = _download_headers(request, "authority", "ca_id")
        bundle = await self._database.read(authorities.bundle, request.device.device_id, request.path_id("ca_id"))
        return RESPONSE_FORMAT.success(bundle).with_headers(*headers)

    async def notify(self, request: ApiRequest, body: NotifyRequest) -> None:
        if body.schema != notifications.SCHEMA:
            raise BadInput("schema", notifications.SCHEMA)
        await self._database.write(
            notifications.report,
            request.device.device_id,
            notifications.reported_version(body.events),
            notifications.bounded_events(body.events),
            notifications.outcomes(body.events),
        )


def _download_headers(request: ApiRequest, kind: str, id_name: str) -> Headers:
    """With `?pack=download`, the header that makes a client save the response as a file."""
    pack = request.query_text("pack")
    if pack not in (None, "download"):
        raise BadInput("pack", "download, or nothing")
    name = f'attachment; filename="{kind}-{request.path_id(id_name)}.json"'
    return () if pack is None else ((b"content-disposition", name.encode()),)
