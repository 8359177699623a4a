"""Operator routes for certificate authorities, the devices that trust them, and the accounts they serve."""

import asyncio
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from restante.core.decoding import INT64_MAX
from restante.database.database import Database
from restante.database.paging import Page
from restante.delivery.log.signals import Emit
from restante.identity.grants import Area
from restante.identity.master_key import MasterKey
from restante.updates.devices.ownership import check_user
from restante.updates.pki import accounts, authorities
from restante.updates.pki.accounts import Account, LeafDefaults
from restante.updates.pki.authorities import Authority, AuthorityAssignment, SealedAuthority
from restante.updates.pki.ca_requests import AuthorityRequest, check_request, make_requested_authority
from restante.updates.pki.crypto.key_options import KeyAlgorithm
from restante.updates.pki.crypto.sealing import AUTHORITY_KEY_PURPOSE
from restante.updates.pki.crypto.subject_fields import SubjectText, check_printable
from restante.updates.pki.crypto.x509 import CertificateWithKey, utc_datetime
from restante.updates.pki.crypto.x509_imports import read_authority
from restante.updates.pki.issuing import VALIDITY_SECONDS_MAX, VALIDITY_SECONDS_MIN
from restante.updates.response_format import LIST_QUERY, RESPONSE_FORMAT, list_info, list_response
from restante.web.paging import PAGE_QUERY, page_request_of
from restante.web.request import ApiRequest
from restante.web.response import ApiResponse
from restante.web.routes import Access, Route, RouteGroup

CAS = "/apiv1/users/{user_id}/cas"
CA = CAS + "/{ca_id}"
DEVICE_CAS = "/apiv1/users/{user_id}/devices/{device_id}/cas"
DEVICE_CA = DEVICE_CAS + "/{ca_id}"
ACCOUNTS = "/apiv1/users/{user_id}/acme-accounts"
ACCOUNT = ACCOUNTS + "/{acct_id}"

_EXAMPLE = {"name": "Example CA", "algorithm": "ECDSA", "curve_name": "P-256", "country": "DE", "valid_days": 3650}
_ACCOUNT_EXAMPLE = {"name": "internal", "email": "pki@example.com", "provider": "self", "ca_id": 1}

Id = Annotated[int, Meta(ge=1, le=INT64_MAX)]
Pem = Annotated[str, Meta(min_length=1, max_length=65536)]


class AuthorityImportRequest(msgspec.Struct, forbid_unknown_fields=True):
    name: SubjectText
    ca_certificate_pem: Pem
    private_key_pem: Pem


class AuthorityAssignmentRequest(msgspec.Struct, forbid_unknown_fields=True):
    ca_id: Id


class AccountRequest(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """Clients in the field write 0 for no authority, and "" for no algorithm or curve."""

    name: SubjectText
    email: Annotated[str, Meta(min_length=3, max_length=254)]
    provider: SubjectText
    ca_id: Annotated[int, Meta(ge=0, le=INT64_MAX)] | None = None
    cert_valid_seconds: Annotated[int, Meta(ge=VALIDITY_SECONDS_MIN, le=VALIDITY_SECONDS_MAX)] | None = None
    leaf_key_algorithm: KeyAlgorithm | Literal[""] | None = None
    leaf_ec_curve: Annotated[str, Meta(max_length=64)] | None = None
    leaf_rsa_bits: int | None = None

    def defaults(self) -> LeafDefaults:
        return LeafDefaults(
            self.cert_valid_seconds, self.leaf_key_algorithm or None, self.leaf_ec_curve or None, self.leaf_rsa_bits
        )


class AuthorityRoutes:
    def __init__(self, database: Database, emit: Emit, master_key: MasterKey) -> None:
        self._database = database
        self._emit = emit
        self._master_key = master_key

    def routes(self) -> list[Route]:
        group = RouteGroup("certificate authorities", RESPONSE_FORMAT, errors=(404,), area=Area.updates)
        return [
            group.post(CAS, self.create, Access.operate, "Create a certificate authority", examples=(_EXAMPLE,)),
            group.get(CAS, self.list, Access.read, "List the user's certificate authorities", query=PAGE_QUERY),
            group.post(CAS + "/import", self.import_, Access.operate, "Import a certificate authority"),
            group.get(CA, self.get, Access.read, "Show a certificate authority"),
            group.delete(CA, self.revoke, Access.operate, "Revoke the authority, unassign it from all devices"),
            group.get(
                DEVICE_CAS,
                self.of_device,
                Access.read,
                "List the device's authorities",
                query=LIST_QUERY,
                responses=(list_info(AuthorityAssignment),),
            ),
            group.post(
                DEVICE_CAS,
                self.assign,
                Access.operate,
                "Assign the authority to the device, which must trust it",
                errors=(409,),
                examples=({"ca_id": 1},),
            ),
            group.delete(
                DEVICE_CA,
                self.unassign,
                Access.operate,
                "Unassign the authority from the device",
                status=204,
                errors=(409,),
            ),
        ]

    async def create(self, request: ApiRequest, body: AuthorityRequest) -> Authority:
        check_request(body)
        user_id = request.path_id("user_id")
        now_ms = await self._database.read(check_user, user_id)
        authority = await asyncio.to_thread(make_requested_authority, body, utc_datetime(now_ms))
        return await self._add(user_id, body.name, authority)

    async def import_(self, request: ApiRequest, body: AuthorityImportRequest) -> Authority:
        check_printable(body.name, "name")
        user_id = request.path_id("user_id")
        now_ms = await self._database.read(check_user, user_id)
        authority = await asyncio.to_thread(
            read_authority, body.ca_certificate_pem, body.private_key_pem, utc_datetime(now_ms)
        )
        return await self._add(user_id, body.name, authority)

    async def list(self, request: ApiRequest) -> Page[Authority]:
        return await self._database.read(authorities.list_of_user, request.path_id("user_id"), page_request_of(request))

    async def get(self, request: ApiRequest) -> Authority:
        return await self._database.read(authorities.get, request.path_id("user_id"), request.path_id("ca_id"))

    async def revoke(self, request: ApiRequest) -> Authority:
        user_id, ca_id = request.path_id("user_id"), request.path_id("ca_id")
        return await self._database.write(authorities.revoke, self._emit, user_id, ca_id)

    async def of_device(self, request: ApiRequest) -> ApiResponse:
        user_id, device_id = request.path_id("user_id"), request.path_id("device_id")
        page = await self._database.read(authorities.list_of_device, user_id, device_id, page_request_of(request))
        return list_response(request, page)

    async def assign(self, request: ApiRequest, body: AuthorityAssignmentRequest) -> AuthorityAssignment:
        user_id, device_id = request.path_id("user_id"), request.path_id("device_id")
        return await self._database.write(authorities.assign, self._emit, user_id, device_id, body.ca_id)

    async def unassign(self, request: ApiRequest) -> None:
        user_id, device_id = request.path_id("user_id"), request.path_id("device_id")
        await self._database.write(authorities.unassign, self._emit, user_id, device_id, request.path_id("ca_id"))

    async def _add(self, user_id: int, name: str, authority: CertificateWithKey) -> Authority:
        sealed_key = self._master_key.seal(authority.private_key_der, AUTHORITY_KEY_PURPOSE)
        sealed = SealedAuthority(name, authority.certificate, sealed_key)
        return await self._database.write(authorities.add, user_id, sealed)


class AccountRoutes:
    def __init__(self, database: Database) -> None:
        self._database = database

    def routes(self) -> list[Route]:
        group = RouteGroup("accounts", RESPONSE_FORMAT, errors=(404,), area=Area.updates)
        return [
            group.post(
                ACCOUNTS,
                self.create,
                Access.operate,
                "Create an account to issue through",
                examples=(_ACCOUNT_EXAMPLE,),
            ),
            group.get(
                ACCOUNTS,
                self.list,
                Access.read,
                "List the user's accounts",
                query=LIST_QUERY,
                responses=(list_info(Account),),
            ),
            group.get(ACCOUNT, self.get, Access.read, "Show an account"),
            group.delete(ACCOUNT, self.delete, Access.operate, "Delete the account", status=204),
        ]

    async def create(self, request: ApiRequest, body: AccountRequest) -> Account:
        check_printable(body.name, "name")
        check_printable(body.provider, "provider")
        return await self._database.write(
            accounts.add,
            request.path_id("user_id"),
            body.name,
            body.email,
            body.provider,
            body.ca_id or None,
            body.defaults(),
        )

    async def list(self, request: ApiRequest) -> ApiResponse:
        user_id = request.path_id("user_id")
        page = await self._database.read(accounts.list_of_user, user_id, page_request_of(request))
        return list_response(request, page)

    async def get(self, request: ApiRequest) -> Account:
        return await self._database.read(accounts.get, request.path_id("user_id"), request.path_id("acct_id"))

    async def delete(self, request: ApiRequest) -> None:
        await self._database.write(accounts.delete, request.path_id("user_id"), request.path_id("acct_id"))
