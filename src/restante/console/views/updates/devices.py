"""A device: its config in all versions, certificates and authorities, signals, and the actions on it."""

import msgspec

from restante.console.live import UPDATES
from restante.console.navigation import ROOT
from restante.console.pages import ConsoleRequest, Hit, Needs, Pages, PageSet
from restante.console.views.updates.device_reading import DeviceDetail, config_change, detail_of, find_device
from restante.core.decoding import DIGITS
from restante.core.errors import BadInput, RestanteError
from restante.core.iso_time import iso_precise
from restante.delivery.device_presence import DevicePresence
from restante.delivery.log.signals import TYPE_CHARACTERS_MAX, Emit
from restante.identity.grants import Area, Role
from restante.identity.tags import check_tag
from restante.updates.devices import devices
from restante.updates.devices.devices import Device
from restante.updates.devices.routes_signals import SignalRequest, send_signal
from restante.updates.fleet import selection
from restante.updates.fleet.device_filter import DeviceFilter
from restante.updates.fleet.routes_delivery import remembered_of
from restante.updates.fleet.routes_groups import change_tag
from restante.updates.install import install_configs
from restante.updates.install.install_configs import ConfigEdit
from restante.updates.install.install_items import checked_installs
from restante.updates.pki import assignments, authorities, certificates
from restante.updates.pki.certificates import FoundCertificate
from restante.web.response import ApiResponse
from restante.web.routes import Route

PATH = "/devices"
EXPIRING_DAYS = 30
NOTE_CHARACTERS_MAX = 1000
HITS_MAX = 10
SCRIPT_CHARACTERS_MAX = 65536
READ, OPERATE = Needs(Area.updates), Needs(Area.updates, Role.operator)


class DevicePages(PageSet):
    needs = READ

    def __init__(self, presence: DevicePresence, emit: Emit, emit_own: Emit) -> None:
        """`emit` sends the signals of the server's own changes, `emit_own` those that an application defines."""
        self._presence = presence
        self._emit = emit
        self._emit_own = emit_own

    def routes(self, pages: Pages) -> list[Route]:
        one = PATH + "/{device_id}"
        return [
            pages.get(one, self.show, READ),
            pages.post(one + "/tags", self.add_tag, OPERATE),
            pages.post(one + "/tags/remove", self.remove_tag, OPERATE),
            pages.get(one + "/config/new", self.show_config_form, OPERATE),
            pages.post(one + "/config/new", self.put_config, OPERATE),
            pages.get(one + "/config/{version}", self.show_version, READ),
            pages.post(one + "/config/{version}/restore", self.restore, OPERATE),
            pages.post(one + "/signals", self.send_signal, OPERATE),
            pages.post(one + "/certificates", self.assign_certificate, OPERATE),
            pages.post(one + "/certificates/{cert_id}/unassign", self.unassign_certificate, OPERATE),
            pages.post(one + "/authorities", self.assign_authority, OPERATE),
            pages.post(one + "/authorities/{ca_id}/unassign", self.unassign_authority, OPERATE),
            pages.post(one + "/revoke", self.revoke, OPERATE, is_final=True, what="revoke the device"),
        ]

    async def show(self, request: ConsoleRequest) -> ApiResponse:
        return await self._page(request, await self._detail(request))

    async def show_version(self, request: ConsoleRequest) -> ApiResponse:
        """A version of the config, and how it differs from another one: by default the one before."""
        device = await self._device(request)
        version = request.path_id("version")
        against = request.query_int("against", max(version - 1, 0), 0, 2**62)
        change = await request.read(config_change, device.user_id, device.id, version, against)
        return request.render(
            "devices/version.html",
            section="devices",
            title=f"Config version {version}",
            device=device,
            device_name=name_of(device),
            path=path_of(device.id),
            change=change,
            may_operate=self._may_operate(request, device),
        )

    async def show_config_form(self, request: ConsoleRequest) -> ApiResponse:
        detail = await self._detail(request)
        config = detail.config
        items = "[]" if config is None else msgspec.json.format(bytes(config.installs), indent=2).decode()
        script = "" if config is None else config.after_update_script or ""
        return self._config_form(request, detail.device, items, script, "", 0 if config is None else config.version)

    async def put_config(self, request: ConsoleRequest) -> ApiResponse:
        device, form = await self._device(request), request.form
        items, note = form.text("installs", 500_000), form.text("note", NOTE_CHARACTERS_MAX)
        script = form.text("script", SCRIPT_CHARACTERS_MAX)
        version = form.whole_number("version", 0)
        try:
            installs = form.json("installs")
            if not isinstance(installs, list) or not all(isinstance(item, dict) for item in installs):
                raise BadInput("installs", "a JSON list of objects")
            edit = ConfigEdit(device.user_id, device.id, request.actor, note or None, version)
            await request.write(install_configs.put, self._emit, edit, checked_installs(installs), script or None)
        except RestanteError as error:
            return self._config_form(request, device, items, script, note, version, error)
        return request.redirect(path_of(device.id), done="config-stored")

    async def restore(self, request: ConsoleRequest) -> ApiResponse:
        device = await self._device(request)
        expected = request.form.optional_number("expected", 0)
        edit = ConfigEdit(device.user_id, device.id, request.actor, None, expected)
        await request.write(install_configs.restore, self._emit, edit, request.path_id("version"))
        return request.redirect(path_of(device.id), done="config-stored")

    async def add_tag(self, request: ConsoleRequest) -> ApiResponse:
        device, tag = await self._device(request), check_tag(request.form.text("tag", 100).strip())
        await request.write(change_tag, device.user_id, device.id, tag, request.actor, is_added=True)
        return request.redirect(path_of(device.id), done="tag-added")

    async def remove_tag(self, request: ConsoleRequest) -> ApiResponse:
        device, tag = await self._device(request), check_tag(request.form.text("tag", 100))
        await request.write(change_tag, device.user_id, device.id, tag, request.actor, is_added=False)
        return request.redirect(path_of(device.id), done="tag-removed")

    async def send_signal(self, request: ConsoleRequest) -> ApiResponse:
        device, form = await self._device(request), request.form
        try:
            ref = form.json("ref")
            if not isinstance(ref, dict):
                raise BadInput("ref", "a JSON object")
            own = SignalRequest(form.required("type", TYPE_CHARACTERS_MAX), ref)
            recorded = {"device_id": device.id, "type": own.type}
            await request.act(
                "device.signal_sent", recorded, send_signal, self._emit_own, device.user_id, device.id, own
            )
        except RestanteError as error:
            return await self._page(request, await self._detail(request), error)
        return request.redirect(path_of(device.id), done="signal-sent")

    async def assign_certificate(self, request: ConsoleRequest) -> ApiResponse:
        device, cert_id = await self._device(request), request.form.whole_number("cert_id")
        recorded = {"device_id": device.id, "cert_id": cert_id}
        await request.act(
            "device.certificate_assigned", recorded, assignments.assign, device.user_id, device.id, cert_id
        )
        return request.redirect(path_of(device.id), done="certificate-assigned")

    async def unassign_certificate(self, request: ConsoleRequest) -> ApiResponse:
        device, cert_id = await self._device(request), request.path_id("cert_id")
        recorded = {"device_id": device.id, "cert_id": cert_id}
        work = assignments.unassign
        await request.act(
            "device.certificate_unassigned", recorded, work, self._emit, device.user_id, device.id, cert_id
        )
        return request.redirect(path_of(device.id), done="certificate-unassigned")

    async def assign_authority(self, request: ConsoleRequest) -> ApiResponse:
        device, ca_id = await self._device(request), request.form.whole_number("ca_id")
        recorded = {"device_id": device.id, "ca_id": ca_id}
        work = authorities.assign
        await request.act("device.authority_assigned", recorded, work, self._emit, device.user_id, device.id, ca_id)
        return request.redirect(path_of(device.id), done="authority-assigned")

    async def unassign_authority(self, request: ConsoleRequest) -> ApiResponse:
        device, ca_id = await self._device(request), request.path_id("ca_id")
        recorded = {"device_id": device.id, "ca_id": ca_id}
        work = authorities.unassign
        await request.act("device.authority_unassigned", recorded, work, self._emit, device.user_id, device.id, ca_id)
        return request.redirect(path_of(device.id), done="authority-unassigned")

    async def revoke(self, request: ConsoleRequest) -> ApiResponse:
        device = await self._device(request)
        await request.act("device.revoked", {"device_id": device.id}, devices.revoke, device.id, device.user_id)
        return request.redirect(path_of(device.id), done="device-revoked")

    async def find(self, request: ConsoleRequest, text: str) -> list[Hit]:
        device_id = int(text) if DIGITS.fullmatch(text) and len(text) < 19 else None
        found = await request.read(find_device, device_id, text, request.allowed)
        hits = [
            Hit("Device", name_of(device), path_of(device.id), f"device {device.id}, {device.status}")
            for device in found
        ]
        known = {hit.path for hit in hits}
        named = await request.read(selection.page, DeviceFilter(name=text), None, HITS_MAX, request.allowed)
        hits += [
            Hit("Device", row.name or row.device_public_id, path_of(row.id), f"device {row.id}, {row.status}")
            for row in named.items
            if path_of(row.id) not in known
        ]
        certs = await request.read(certificates.find, text, HITS_MAX)
        return hits + [_certificate_hit(each) for each in certs if each.user_id in request.allowed]

    async def _device(self, request: ConsoleRequest) -> Device:
        device = await request.read(devices.get, request.path_id("device_id"))
        request.require(device.user_id)
        return device

    async def _detail(self, request: ConsoleRequest) -> DeviceDetail:
        device = await self._device(request)
        remembered = remembered_of(self._presence, device.id)
        return await request.read(detail_of, device, remembered, self._may_operate(request, device))

    def _may_operate(self, request: ConsoleRequest, device: Device) -> bool:
        return device.status == "active" and request.may(Area.updates, Role.operator, device.user_id)

    async def _page(
        self, request: ConsoleRequest, detail: DeviceDetail, problem: RestanteError | None = None
    ) -> ApiResponse:
        device, now_ms = detail.device, request.parts.rendering.now_ms()
        return request.render(
            "devices/device.html",
            section="devices",
            title=name_of(device),
            topics=(UPDATES,),
            http_status=200 if problem is None else problem.status,
            device=device,
            detail=detail,
            delivery=detail.why.delivery,
            path=path_of(device.id),
            may_operate=self._may_operate(request, device),
            now=iso_precise(now_ms),
            expiring_before=iso_precise(now_ms + EXPIRING_DAYS * 86_400_000),
            signal_type=request.form.text("type"),
            signal_ref=request.form.text("ref") or "{}",
            signal_problem="" if problem is None else problem.message,
        )

    def _config_form(
        self,
        request: ConsoleRequest,
        device: Device,
        items: str,
        script: str,
        note: str,
        version: int,
        problem: RestanteError | None = None,
    ) -> ApiResponse:
        return request.render(
            "devices/config_form.html",
            section="devices",
            title="New config",
            http_status=200 if problem is None else problem.status,
            device=device,
            device_name=name_of(device),
            path=path_of(device.id),
            items=items,
            script=script,
            note=note,
            version=version,
            problem="" if problem is None else problem.message,
        )


def _certificate_hit(found: FoundCertificate) -> Hit:
    """A certificate is shown on the page of a device that has it."""
    detail = f"certificate {found.id}, {found.status}"
    if found.device_id is None:
        path, detail = f"{ROOT}{PATH}?user_id={found.user_id}", f"{detail}, on no device"
    else:
        path = f"{path_of(found.device_id)}#certificates"
    return Hit("Certificate", found.domain_name, path, detail)


def name_of(device: Device) -> str:
    return device.name or device.device_public_id


def path_of(device_id: int) -> str:
    return f"{ROOT}{PATH}/{device_id}"
