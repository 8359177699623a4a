"""Operator routes for certificates and which devices have them."""

import asyncio
from functools import partial
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from restante.core.errors import BadInput
from restante.database.database import Database
from restante.delivery.signals import Emit
from restante.identity.master_key import MasterKey
from restante.updates import assignments, certificates, issuing
from restante.updates.assignments import CertificateAssignment
from restante.updates.certificates import Certificate, CertificateDetail
from restante.updates.material import IssueMaterial, seal_material
from restante.updates.names import checked_name, checked_names, is_covered
from restante.updates.ownership import require_user
from restante.updates.wire import SHAPE
from restante.updates.x509_imports import carried_names, read_chain
from restante.web.ask import INT64_MAX, Ask
from restante.web.paging import PAGE_QUERY, Page, window_of
from restante.web.routes import Access, Route

CERTIFICATES = "/apiv1/users/{user_id}/certificates"
CERTIFICATE = CERTIFICATES + "/{certificate_id}"
DEVICE_CERTIFICATES = "/apiv1/users/{user_id}/devices/{device_id}/certificates"
DEVICE_CERTIFICATE = DEVICE_CERTIFICATES + "/{cert_id}"

DAY_SECONDS = 24 * 60 * 60
VALIDITY_SECONDS_DEFAULT = 90 * DAY_SECONDS
VALIDITY_SECONDS_MIN = 300
VALIDITY_SECONDS_MAX = 3650 * DAY_SECONDS

Id = Annotated[int, Meta(ge=1, le=INT64_MAX)]
Name = Annotated[str, Meta(min_length=1, max_length=253)]


class NewCertificate(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    domain_name: Name
    sans: list[Name] = []
    acct_id: Id
    action: Literal["create"] = "create"


class CertificateImport(msgspec.Struct, forbid_unknown_fields=True):
    certificate_pem: Annotated[str, Meta(min_length=1, max_length=262144)]
    private_key_pem: Annotated[str, Meta(min_length=1, max_length=65536)]
    domain_name: Name | None = None


class IssueOrder(msgspec.Struct, forbid_unknown_fields=True):
    validity_seconds: Annotated[int, Meta(ge=VALIDITY_SECONDS_MIN, le=VALIDITY_SECONDS_MAX)] = VALIDITY_SECONDS_DEFAULT


class ChosenCertificate(msgspec.Struct, forbid_unknown_fields=True):
    cert_id: Id


class CertificateRoutes:
    def __init__(self, database: Database, emit: Emit, master_key: MasterKey) -> None:
        self._database = database
        self._emit = emit
        self._master_key = master_key

    def routes(self) -> list[Route]:
        row = partial(Route, shape=SHAPE, tag="certificates", refusals=(404,))
        change = partial(Route, shape=SHAPE, tag="certificates", refusals=(404, 409))
        read, operate = Access.read, Access.operate
        return [
            row("POST", CERTIFICATES, self.create, operate, "Make a certificate record"),
            row("GET", CERTIFICATES, self.list, read, "The user's certificates", query=PAGE_QUERY),
            row("POST", CERTIFICATES + "/import", self.import_, operate, "Take over a certificate"),
            row("GET", CERTIFICATE, self.get, read, "A certificate"),
            row("DELETE", CERTIFICATE, self.revoke, operate, "Revoke it, take it from all devices"),
            self._issues_route(),
            row(
                "GET",
                DEVICE_CERTIFICATES,
                self.of_device,
                read,
                "The device's certificates",
                query=PAGE_QUERY,
            ),
            change("POST", DEVICE_CERTIFICATES, self.assign, operate, "Give the device a certificate"),
            change("DELETE", DEVICE_CERTIFICATE, self.unassign, operate, "Take it from the device", status=204),
        ]

    def _issues_route(self) -> Route:
        return Route(
            "POST",
            CERTIFICATE + "/issues",
            self.issue,
            Access.operate,
            "Issue or renew the certificate, with a new key",
            shape=SHAPE,
            tag="certificates",
            refusals=(404, 409, 422),
            body_optional=True,
        )

    async def create(self, ask: Ask, body: NewCertificate) -> CertificateDetail:
        names = checked_names(body.domain_name, body.sans)
        return await self._database.write(certificates.create, ask.path_id("user_id"), names, body.acct_id)

    async def import_(self, ask: Ask, body: CertificateImport) -> CertificateDetail:
        user_id = ask.path_id("user_id")
        await self._database.read(require_user, user_id)
        material = await asyncio.to_thread(imported_material, body, self._master_key)
        names = carried_names(material.certificate)
        domain_name = _domain_name(body.domain_name, names)
        return await self._database.write(certificates.add_imported, user_id, domain_name, names, material)

    async def list(self, ask: Ask) -> Page[Certificate]:
        return await self._database.read(certificates.list_of_user, ask.path_id("user_id"), window_of(ask))

    async def get(self, ask: Ask) -> CertificateDetail:
        user_id, cert_id = ask.path_id("user_id"), ask.path_id("certificate_id")
        return await self._database.read(certificates.get, user_id, cert_id)

    async def revoke(self, ask: Ask) -> CertificateDetail:
        user_id, cert_id = ask.path_id("user_id"), ask.path_id("certificate_id")
        return await self._database.write(certificates.revoke, self._emit, user_id, cert_id)

    async def issue(self, ask: Ask, body: IssueOrder) -> CertificateDetail:
        user_id, cert_id = ask.path_id("user_id"), ask.path_id("certificate_id")
        plan = await self._database.read(issuing.plan, user_id, cert_id)
        material = await asyncio.to_thread(issuing.carry_out, plan, self._master_key, body.validity_seconds)
        return await self._database.write(issuing.store, self._emit, plan, material)

    async def of_device(self, ask: Ask) -> Page[CertificateAssignment]:
        user_id, device_id = ask.path_id("user_id"), ask.path_id("device_id")
        return await self._database.read(assignments.list_of_device, user_id, device_id, window_of(ask))

    async def assign(self, ask: Ask, body: ChosenCertificate) -> CertificateAssignment:
        user_id, device_id = ask.path_id("user_id"), ask.path_id("device_id")
        return await self._database.write(assignments.assign, user_id, device_id, body.cert_id)

    async def unassign(self, ask: Ask) -> None:
        user_id, device_id = ask.path_id("user_id"), ask.path_id("device_id")
        await self._database.write(assignments.unassign, self._emit, user_id, device_id, ask.path_id("cert_id"))


def imported_material(body: CertificateImport, master_key: MasterKey) -> IssueMaterial:
    keyed, above = read_chain(body.certificate_pem, body.private_key_pem)
    return seal_material(keyed, above, master_key)


def _domain_name(wanted: str | None, carried: list[str]) -> str:
    """The name an imported certificate goes by: the one asked for, if it is good for it, or its first."""
    if not carried:
        raise BadInput("certificate_pem", "a certificate with at least one DNS name or IP address")
    if wanted is None:
        return carried[0]
    name = checked_name(wanted, "domain_name")
    if not is_covered(name, carried):
        raise BadInput("domain_name", f"a name the certificate is for ({', '.join(carried[:5])})")
    return name
