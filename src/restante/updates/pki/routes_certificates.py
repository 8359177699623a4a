"""Operator routes for certificates and their assignment to devices."""

import asyncio
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from restante.core.decoding import INT64_MAX
from restante.core.errors import BadInput
from restante.database.database import Database
from restante.database.paging import Page
from restante.delivery.log.signals import Emit
from restante.identity.grants import Area
from restante.identity.master_key import MasterKey
from restante.updates.devices.ownership import check_user
from restante.updates.pki import assignments, certificates, issuing
from restante.updates.pki.assignments import CertificateAssignment
from restante.updates.pki.certificates import Certificate, CertificateDetail
from restante.updates.pki.crypto.certificate_names import checked_name, checked_names, is_covered
from restante.updates.pki.crypto.issued_certificate import IssuedCertificate, seal_certificate
from restante.updates.pki.crypto.subject_fields import SubjectFields
from restante.updates.pki.crypto.x509_imports import names_of_certificate, read_chain
from restante.updates.pki.issuing import VALIDITY_SECONDS_MAX, VALIDITY_SECONDS_MIN, IssueRules
from restante.updates.pki.revocation.issued_serials import REASONS
from restante.updates.response_format import LIST_QUERY, RESPONSE_FORMAT, list_info, list_response
from restante.web.paging import PAGE_QUERY, page_request_of, query_choice
from restante.web.request import ApiRequest
from restante.web.response import ApiResponse
from restante.web.routes import Access, Query, Route, RouteGroup, RouteOptions

CERTIFICATES = "/apiv1/users/{user_id}/certificates"
CERTIFICATE = CERTIFICATES + "/{certificate_id}"
DEVICE_CERTIFICATES = "/apiv1/users/{user_id}/devices/{device_id}/certificates"
DEVICE_CERTIFICATE = DEVICE_CERTIFICATES + "/{cert_id}"

_EXAMPLE = {"domain_name": "site.example.com", "sans": ["www.example.com"], "acct_id": 1}

_REASON = Query(
    "reason",
    "why it is revoked, for the revocation list",
    {"type": "string", "enum": list(REASONS), "default": REASONS[0]},
)

Id = Annotated[int, Meta(ge=1, le=INT64_MAX)]
Name = Annotated[str, Meta(min_length=1, max_length=253)]
ValiditySeconds = Annotated[int, Meta(ge=VALIDITY_SECONDS_MIN, le=VALIDITY_SECONDS_MAX)]


class CertificateRequest(SubjectFields, kw_only=True):
    domain_name: Name
    sans: list[Name] = msgspec.field(default_factory=list)
    acct_id: Id
    action: Literal["create"] = "create"


class CertificateImportRequest(msgspec.Struct, forbid_unknown_fields=True):
    certificate_pem: Annotated[str, Meta(min_length=1, max_length=262144)]
    private_key_pem: Annotated[str, Meta(min_length=1, max_length=65536)]
    domain_name: Name | None = None


class IssueRequest(msgspec.Struct, forbid_unknown_fields=True):
    validity_seconds: ValiditySeconds | None = None


class CertificateAssignmentRequest(msgspec.Struct, forbid_unknown_fields=True):
    cert_id: Id


class CertificateUpdate(msgspec.Struct, forbid_unknown_fields=True):
    auto_renew: bool


class CertificateRoutes:
    def __init__(self, database: Database, emit: Emit, master_key: MasterKey, rules: IssueRules) -> None:
        self._database = database
        self._emit = emit
        self._master_key = master_key
        self._rules = rules

    def routes(self) -> list[Route]:
        group = RouteGroup("certificates", RESPONSE_FORMAT, errors=(404,), area=Area.updates)
        read, operate = Access.read, Access.operate
        assigned = RouteOptions(errors=(409,), examples=({"cert_id": 1},))
        return [
            group.post(CERTIFICATES, self.create, operate, "Create a certificate record", examples=(_EXAMPLE,)),
            group.get(CERTIFICATES, self.list, read, "List the user's certificates", query=PAGE_QUERY),
            group.post(CERTIFICATES + "/import", self.import_, operate, "Import a certificate"),
            group.get(CERTIFICATE, self.get, read, "Show a certificate"),
            group.patch(
                CERTIFICATE,
                self.update,
                operate,
                "Let the certificate be renewed by itself, or not",
                examples=({"auto_renew": False},),
            ),
            group.delete(
                CERTIFICATE,
                self.revoke,
                operate,
                "Revoke the certificate, unassign it from all devices",
                query=(_REASON,),
            ),
            group.post(
                CERTIFICATE + "/issues",
                self.issue,
                operate,
                "Issue or renew the certificate, with a new key",
                errors=(409, 422),
                body_optional=True,
                examples=({"validity_seconds": 7_776_000},),
            ),
            group.get(
                DEVICE_CERTIFICATES,
                self.of_device,
                read,
                "List the device's certificates",
                query=LIST_QUERY,
                responses=(list_info(CertificateAssignment),),
            ),
            group.post(DEVICE_CERTIFICATES, self.assign, operate, "Assign a certificate to the device", **assigned),
            group.delete(
                DEVICE_CERTIFICATE,
                self.unassign,
                operate,
                "Unassign the certificate from the device",
                status=204,
                errors=(409,),
            ),
        ]

    async def create(self, request: ApiRequest, body: CertificateRequest) -> CertificateDetail:
        names = checked_names(body.domain_name, body.sans)
        body.check_subject()
        user_id = request.path_id("user_id")
        return await self._database.write(certificates.create, user_id, names, body.acct_id, body.as_subject())

    async def import_(self, request: ApiRequest, body: CertificateImportRequest) -> CertificateDetail:
        user_id = request.path_id("user_id")
        await self._database.read(check_user, user_id)
        issued = await asyncio.to_thread(seal_imported, body, self._master_key)
        names = names_of_certificate(issued.certificate)
        domain_name = _domain_name(body.domain_name, names)
        return await self._database.write(certificates.add_imported, user_id, domain_name, names, issued)

    async def list(self, request: ApiRequest) -> Page[Certificate]:
        return await self._database.read(
            certificates.list_of_user, request.path_id("user_id"), page_request_of(request)
        )

    async def get(self, request: ApiRequest) -> CertificateDetail:
        user_id, cert_id = request.path_id("user_id"), request.path_id("certificate_id")
        return await self._database.read(certificates.get, user_id, cert_id)

    async def revoke(self, request: ApiRequest) -> CertificateDetail:
        user_id, cert_id = request.path_id("user_id"), request.path_id("certificate_id")
        given = query_choice(request, "reason", REASONS)
        reason = next((each for each in REASONS if each == given), REASONS[0])
        return await self._database.write(certificates.revoke, self._emit, user_id, cert_id, reason, request.actor)

    async def update(self, request: ApiRequest, body: CertificateUpdate) -> CertificateDetail:
        """A certificate with an account is renewed after two thirds of its life, unless the server is set otherwise."""
        user_id, cert_id = request.path_id("user_id"), request.path_id("certificate_id")
        percent = self._rules.renew_at_percent
        return await self._database.write(certificates.set_auto_renew, user_id, cert_id, body.auto_renew, percent)

    async def issue(self, request: ApiRequest, body: IssueRequest) -> CertificateDetail:
        user_id, cert_id = request.path_id("user_id"), request.path_id("certificate_id")
        plan = await self._database.read(issuing.plan, user_id, cert_id, self._rules)
        issued = await asyncio.to_thread(issuing.make_certificate, plan, self._master_key, body.validity_seconds)
        return await self._database.write(issuing.store, self._emit, plan, issued)

    async def of_device(self, request: ApiRequest) -> ApiResponse:
        user_id, device_id = request.path_id("user_id"), request.path_id("device_id")
        page = await self._database.read(assignments.list_of_device, user_id, device_id, page_request_of(request))
        return list_response(request, page)

    async def assign(self, request: ApiRequest, body: CertificateAssignmentRequest) -> CertificateAssignment:
        user_id, device_id = request.path_id("user_id"), request.path_id("device_id")
        return await self._database.write(assignments.assign, user_id, device_id, body.cert_id)

    async def unassign(self, request: ApiRequest) -> None:
        user_id, device_id = request.path_id("user_id"), request.path_id("device_id")
        await self._database.write(assignments.unassign, self._emit, user_id, device_id, request.path_id("cert_id"))


def seal_imported(body: CertificateImportRequest, master_key: MasterKey) -> IssuedCertificate:
    leaf, issuers = read_chain(body.certificate_pem, body.private_key_pem)
    return seal_certificate(leaf, issuers, master_key)


def _domain_name(requested: str | None, names: list[str]) -> str:
    """The domain name of an imported certificate: the requested one, if the certificate covers it, else its first."""
    if not names:
        raise BadInput("certificate_pem", "a certificate with at least one DNS name or IP address")
    if requested is None:
        return names[0]
    name = checked_name(requested, "domain_name")
    if not is_covered(name, names):
        raise BadInput("domain_name", f"a name that the certificate covers ({', '.join(names[:5])})")
    return name
