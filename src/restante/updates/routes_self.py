"""What a device asks for itself: its install config, certificates and authorities; and what it reports."""

from functools import partial
from typing import Any

import msgspec

from restante.core.errors import BadInput
from restante.database.database import Database
from restante.updates import assignments, authorities, install_configs, notifications
from restante.updates.assignments import DeviceCertificate
from restante.updates.authorities import AuthorityBundle
from restante.updates.etags import is_known, version_etag
from restante.updates.routes_install import config_answer
from restante.updates.wire import SHAPE
from restante.web.answer import NO_STORE, Answer
from restante.web.ask import Ask
from restante.web.routes import Access, Query, Route

SELF = "/apiv1/devices/self"
CERTIFICATE = SELF + "/certificates/{certificate_id}"

_PACK = Query("pack", "`download`: the same, as a file to save", {"type": "string", "enum": ["download"]})


class Notification(msgspec.Struct):
    """Agents in the field send more than this; what we do not know we leave."""

    schema: str
    events: list[Any]


class SelfRoutes:
    def __init__(self, database: Database) -> None:
        self._database = database

    def routes(self) -> list[Route]:
        row = partial(Route, access=Access.device, shape=SHAPE, tag="device")
        return [
            row(
                "GET",
                SELF + "/install-config",
                self.install_config,
                summary="What to install",
                refusals=(404,),
            ),
            row("GET", CERTIFICATE, self.certificate, summary="A certificate of mine", refusals=(404, 409)),
            row(
                "GET",
                CERTIFICATE + "/deploy-materials",
                self.bundle,
                summary="A certificate with its key, encrypted for this device",
                query=(_PACK,),
                refusals=(404, 409),
            ),
            row(
                "GET",
                CERTIFICATE + "/bundle",
                self.bundle,
                summary="A certificate with its key, encrypted for this device",
                query=(_PACK,),
                refusals=(404, 409),
            ),
            row(
                "GET",
                SELF + "/cas/{ca_id}/bundle",
                self.ca_bundle,
                summary="An authority to trust",
                refusals=(404,),
            ),
            row("POST", SELF + "/notify", self.notify, summary="Report what the agent did", status=204),
        ]

    async def install_config(self, ask: Ask) -> Answer:
        config = await self._database.read(install_configs.current, ask.device.device_id)
        if is_known(ask, config.version):
            return Answer(304, (NO_STORE, version_etag(config.version)))
        return config_answer(config)

    async def certificate(self, ask: Ask) -> DeviceCertificate:
        cert_id = ask.path_id("certificate_id")
        return await self._database.read(assignments.device_certificate, ask.device.device_id, cert_id)

    async def bundle(self, ask: Ask) -> Answer:
        pack = ask.query_text("pack")
        if pack not in (None, "download"):
            raise BadInput("pack", "download, or nothing")
        cert_id = ask.path_id("certificate_id")
        answer = SHAPE.success(await self._database.read(assignments.bundle, ask.device.device_id, cert_id))
        if pack is None:
            return answer
        name = b'attachment; filename="certificate-%d.json"' % cert_id
        return answer.with_headers((b"content-disposition", name))

    async def ca_bundle(self, ask: Ask) -> AuthorityBundle:
        return await self._database.read(authorities.bundle, ask.device.device_id, ask.path_id("ca_id"))

    async def notify(self, ask: Ask, body: Notification) -> None:
        if body.schema != notifications.SCHEMA:
            raise BadInput("schema", notifications.SCHEMA)
        await self._database.write(
            notifications.report,
            ask.device.device_id,
            notifications.reported_version(body.events),
            notifications.bounded_events(body.events),
        )
