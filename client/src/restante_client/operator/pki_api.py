"""Operator routes: certificates, authorities, accounts.

Generated from the server's routes by `scripts/generate-operator-client`; do not edit.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from typing import Literal, TypedDict

from msgspec import UNSET, UnsetType

from restante_client.operator.core import BlockingNoun, Noun, as_body
from restante_client.runtime import blocking, blocking_iterator


class Certificate(TypedDict, total=False):
    id: int
    domain_name: str
    sans: list[str]
    acct_id: int | None
    organization: str | None
    organizational_unit: str | None
    country: str | None
    state: str | None
    locality: str | None
    status: str
    serial: str | None
    issuer: str | None
    not_before: str | None
    not_after: str | None
    devices_count: int
    created_at: str
    updated_at: str
    revoked_at: str | None
    auto_renew: bool


class CertificatePage(TypedDict, total=False):
    """`next` is the `after` of the next page, or None on the last page."""

    items: list[Certificate]
    next: int | None


class CertificateDetail(TypedDict, total=False):
    id: int
    domain_name: str
    sans: list[str]
    acct_id: int | None
    organization: str | None
    organizational_unit: str | None
    country: str | None
    state: str | None
    locality: str | None
    status: str
    serial: str | None
    issuer: str | None
    not_before: str | None
    not_after: str | None
    devices_count: int
    created_at: str
    updated_at: str
    revoked_at: str | None
    auto_renew: bool
    certificate_pem: str | None
    chain_pem: str | None


class ExpiringCertificate(TypedDict, total=False):
    """`renews_at`: when it is renewed by itself, or tried again after a failure; null: never."""

    certificate_id: int
    user_id: int
    domain_name: str
    serial: str
    issuer: str
    not_after: str
    auto_renew: bool
    renews_at: str | None
    renewal_failures: int
    renewal_failed_at: str | None
    renewal_error: str | None
    devices_count: int


class ExpiringCertificates(TypedDict, total=False):
    items: list[ExpiringCertificate]
    next: str | None


class CertificateAssignment(TypedDict, total=False):
    """A certificate of a device. Clients in the field read its id as `id`, others as `cert_id`."""

    id: int
    device_id: int
    cert_id: int
    domain_name: str
    wrap_status: str
    wrap_alg: str
    device_keyfp_b64: str
    assigned_at: str


class CertificateAssignmentPage(TypedDict, total=False):
    """`next` is the `after` of the next page, or None on the last page."""

    items: list[CertificateAssignment]
    next: int | None


class Authority(TypedDict, total=False):
    id: int
    name: str
    status: str
    common_name: str
    algorithm: str
    key_size: int
    curve_name: str | None
    serial_number: str
    valid_days: int
    not_before: str
    not_after: str
    key_usage: str | None
    ca_certificate_pem: str
    created_at: str
    revoked_at: str | None
    devices_count: int


class AuthorityPage(TypedDict, total=False):
    """`next` is the `after` of the next page, or None on the last page."""

    items: list[Authority]
    next: int | None


class ExpiringAuthority(TypedDict, total=False):
    ca_id: int
    user_id: int
    name: str
    serial: str
    not_after: str


class ExpiringAuthorities(TypedDict, total=False):
    items: list[ExpiringAuthority]
    next: str | None


class AuthorityAssignment(TypedDict, total=False):
    """An authority of a device. Clients in the field read its id as `id`, others as `ca_id`."""

    id: int
    device_id: int
    ca_id: int
    ca_name: str
    serial: str
    assigned_at: str


class AuthorityAssignmentPage(TypedDict, total=False):
    """`next` is the `after` of the next page, or None on the last page."""

    items: list[AuthorityAssignment]
    next: int | None


class Account(TypedDict, total=False):
    id: int
    name: str
    email: str
    provider: str
    ca_id: int | None
    cert_valid_seconds: int | None
    leaf_key_algorithm: str | None
    leaf_ec_curve: str | None
    leaf_rsa_bits: int | None
    created_at: str


class AccountPage(TypedDict, total=False):
    """`next` is the `after` of the next page, or None on the last page."""

    items: list[Account]
    next: int | None


class Certificates(Noun):
    def list(self, user_id: int) -> AsyncGenerator[Certificate, None]:
        """List the user's certificates: all pages."""
        return self.pages(f"/apiv1/users/{self.quoted(user_id)}/certificates", {}, is_wrapped=True)

    async def list_page(self, user_id: int, *, limit: int | None = None, after: int | None = None) -> CertificatePage:
        """List the user's certificates: one page."""
        found: CertificatePage = await self.call(
            "GET",
            f"/apiv1/users/{self.quoted(user_id)}/certificates",
            query={"limit": limit, "after": after},
            is_wrapped=True,
        )
        return found

    async def get(self, user_id: int, certificate_id: int) -> CertificateDetail:
        """Show a certificate."""
        found: CertificateDetail = await self.call(
            "GET", f"/apiv1/users/{self.quoted(user_id)}/certificates/{self.quoted(certificate_id)}", is_wrapped=True
        )
        return found

    async def create(
        self,
        user_id: int,
        *,
        domain_name: str,
        acct_id: int,
        organization: str | UnsetType | None = UNSET,
        organizational_unit: str | UnsetType | None = UNSET,
        country: str | UnsetType | None = UNSET,
        state: str | UnsetType | None = UNSET,
        locality: str | UnsetType | None = UNSET,
        sans: Sequence[str] | UnsetType = UNSET,
        action: Literal["create"] | UnsetType = UNSET,
    ) -> CertificateDetail:
        """Create a certificate record."""
        found: CertificateDetail = await self.call(
            "POST",
            f"/apiv1/users/{self.quoted(user_id)}/certificates",
            body=as_body(
                organization=organization,
                organizational_unit=organizational_unit,
                country=country,
                state=state,
                locality=locality,
                domain_name=domain_name,
                sans=sans,
                acct_id=acct_id,
                action=action,
            ),
            is_wrapped=True,
        )
        return found

    async def import_pem(
        self, user_id: int, *, certificate_pem: str, private_key_pem: str, domain_name: str | UnsetType | None = UNSET
    ) -> CertificateDetail:
        """Import a certificate."""
        found: CertificateDetail = await self.call(
            "POST",
            f"/apiv1/users/{self.quoted(user_id)}/certificates/import",
            body=as_body(certificate_pem=certificate_pem, private_key_pem=private_key_pem, domain_name=domain_name),
            is_wrapped=True,
        )
        return found

    async def issue(
        self, user_id: int, certificate_id: int, *, validity_seconds: int | UnsetType | None = UNSET
    ) -> CertificateDetail:
        """Issue or renew the certificate, with a new key."""
        found: CertificateDetail = await self.call(
            "POST",
            f"/apiv1/users/{self.quoted(user_id)}/certificates/{self.quoted(certificate_id)}/issues",
            body=as_body(validity_seconds=validity_seconds),
            is_wrapped=True,
        )
        return found

    async def update(self, user_id: int, certificate_id: int, *, auto_renew: bool) -> CertificateDetail:
        """Let the certificate be renewed by itself, or not."""
        found: CertificateDetail = await self.call(
            "PATCH",
            f"/apiv1/users/{self.quoted(user_id)}/certificates/{self.quoted(certificate_id)}",
            body=as_body(auto_renew=auto_renew),
            is_wrapped=True,
        )
        return found

    async def delete(
        self,
        user_id: int,
        certificate_id: int,
        *,
        reason: Literal[
            "unspecified",
            "key_compromise",
            "affiliation_changed",
            "superseded",
            "cessation_of_operation",
            "privilege_withdrawn",
        ]
        | None = None,
    ) -> CertificateDetail:
        """Revoke the certificate, unassign it from all devices."""
        found: CertificateDetail = await self.call(
            "DELETE",
            f"/apiv1/users/{self.quoted(user_id)}/certificates/{self.quoted(certificate_id)}",
            query={"reason": reason},
            is_wrapped=True,
        )
        return found

    def list_by_expiry(
        self,
        *,
        expiring: str | None = None,
        user_id: int | None = None,
        name: str | None = None,
        renewal: Literal["failed", "on", "off"] | None = None,
    ) -> AsyncGenerator[ExpiringCertificate, None]:
        """List certificates by their end: all pages."""
        return self.pages(
            "/apiv1/certificates",
            {"expiring": expiring, "user_id": user_id, "name": name, "renewal": renewal},
            is_wrapped=True,
        )

    async def list_by_expiry_page(
        self,
        *,
        expiring: str | None = None,
        user_id: int | None = None,
        name: str | None = None,
        renewal: Literal["failed", "on", "off"] | None = None,
        limit: int | None = None,
        after: str | None = None,
    ) -> ExpiringCertificates:
        """List certificates by their end: one page."""
        found: ExpiringCertificates = await self.call(
            "GET",
            "/apiv1/certificates",
            query={
                "expiring": expiring,
                "user_id": user_id,
                "name": name,
                "renewal": renewal,
                "limit": limit,
                "after": after,
            },
            is_wrapped=True,
        )
        return found

    def list_of_device(self, user_id: int, device_id: int) -> AsyncGenerator[CertificateAssignment, None]:
        """List the device's certificates: all pages."""
        return self.pages(
            f"/apiv1/users/{self.quoted(user_id)}/devices/{self.quoted(device_id)}/certificates",
            {"page": "object"},
            is_wrapped=True,
        )

    async def list_of_device_page(
        self, user_id: int, device_id: int, *, limit: int | None = None, after: int | None = None
    ) -> CertificateAssignmentPage:
        """List the device's certificates: one page."""
        found: CertificateAssignmentPage = await self.call(
            "GET",
            f"/apiv1/users/{self.quoted(user_id)}/devices/{self.quoted(device_id)}/certificates",
            query={"limit": limit, "after": after, "page": "object"},
            is_wrapped=True,
        )
        return found

    async def assign(self, user_id: int, device_id: int, *, cert_id: int) -> CertificateAssignment:
        """Assign a certificate to the device."""
        found: CertificateAssignment = await self.call(
            "POST",
            f"/apiv1/users/{self.quoted(user_id)}/devices/{self.quoted(device_id)}/certificates",
            body=as_body(cert_id=cert_id),
            is_wrapped=True,
        )
        return found

    async def unassign(self, user_id: int, device_id: int, cert_id: int) -> None:
        """Unassign the certificate from the device."""
        await self.call(
            "DELETE",
            f"/apiv1/users/{self.quoted(user_id)}/devices/{self.quoted(device_id)}/certificates/{self.quoted(cert_id)}",
        )


class BlockingCertificates(BlockingNoun[Certificates]):
    list = blocking_iterator(Certificates.list)
    list_page = blocking(Certificates.list_page)
    get = blocking(Certificates.get)
    create = blocking(Certificates.create)
    import_pem = blocking(Certificates.import_pem)
    issue = blocking(Certificates.issue)
    update = blocking(Certificates.update)
    delete = blocking(Certificates.delete)
    list_by_expiry = blocking_iterator(Certificates.list_by_expiry)
    list_by_expiry_page = blocking(Certificates.list_by_expiry_page)
    list_of_device = blocking_iterator(Certificates.list_of_device)
    list_of_device_page = blocking(Certificates.list_of_device_page)
    assign = blocking(Certificates.assign)
    unassign = blocking(Certificates.unassign)


class Authorities(Noun):
    def list(self, user_id: int) -> AsyncGenerator[Authority, None]:
        """List the user's certificate authorities: all pages."""
        return self.pages(f"/apiv1/users/{self.quoted(user_id)}/cas", {}, is_wrapped=True)

    async def list_page(self, user_id: int, *, limit: int | None = None, after: int | None = None) -> AuthorityPage:
        """List the user's certificate authorities: one page."""
        found: AuthorityPage = await self.call(
            "GET", f"/apiv1/users/{self.quoted(user_id)}/cas", query={"limit": limit, "after": after}, is_wrapped=True
        )
        return found

    async def get(self, user_id: int, ca_id: int) -> Authority:
        """Show a certificate authority."""
        found: Authority = await self.call(
            "GET", f"/apiv1/users/{self.quoted(user_id)}/cas/{self.quoted(ca_id)}", is_wrapped=True
        )
        return found

    async def create(
        self,
        user_id: int,
        *,
        name: str,
        organization: str | UnsetType | None = UNSET,
        organizational_unit: str | UnsetType | None = UNSET,
        country: str | UnsetType | None = UNSET,
        state: str | UnsetType | None = UNSET,
        locality: str | UnsetType | None = UNSET,
        algorithm: Literal["ECDSA", "RSA"] | UnsetType = UNSET,
        key_size: int | UnsetType | None = UNSET,
        curve_name: str | UnsetType | None = UNSET,
        common_name: str | UnsetType | None = UNSET,
        valid_days: int | UnsetType = UNSET,
        max_path_length: int | UnsetType | None = UNSET,
        key_usage: str | UnsetType | None = UNSET,
    ) -> Authority:
        """Create a certificate authority."""
        found: Authority = await self.call(
            "POST",
            f"/apiv1/users/{self.quoted(user_id)}/cas",
            body=as_body(
                organization=organization,
                organizational_unit=organizational_unit,
                country=country,
                state=state,
                locality=locality,
                name=name,
                algorithm=algorithm,
                key_size=key_size,
                curve_name=curve_name,
                common_name=common_name,
                valid_days=valid_days,
                max_path_length=max_path_length,
                key_usage=key_usage,
            ),
            is_wrapped=True,
        )
        return found

    async def import_pem(self, user_id: int, *, name: str, ca_certificate_pem: str, private_key_pem: str) -> Authority:
        """Import a certificate authority."""
        found: Authority = await self.call(
            "POST",
            f"/apiv1/users/{self.quoted(user_id)}/cas/import",
            body=as_body(name=name, ca_certificate_pem=ca_certificate_pem, private_key_pem=private_key_pem),
            is_wrapped=True,
        )
        return found

    def list_by_expiry(
        self, *, expiring: str | None = None, user_id: int | None = None, name: str | None = None
    ) -> AsyncGenerator[ExpiringAuthority, None]:
        """List authorities by their end: all pages."""
        return self.pages("/apiv1/cas", {"expiring": expiring, "user_id": user_id, "name": name}, is_wrapped=True)

    async def list_by_expiry_page(
        self,
        *,
        expiring: str | None = None,
        user_id: int | None = None,
        name: str | None = None,
        limit: int | None = None,
        after: str | None = None,
    ) -> ExpiringAuthorities:
        """List authorities by their end: one page."""
        found: ExpiringAuthorities = await self.call(
            "GET",
            "/apiv1/cas",
            query={"expiring": expiring, "user_id": user_id, "name": name, "limit": limit, "after": after},
            is_wrapped=True,
        )
        return found

    async def delete(self, user_id: int, ca_id: int) -> Authority:
        """Revoke the authority, unassign it from all devices."""
        found: Authority = await self.call(
            "DELETE", f"/apiv1/users/{self.quoted(user_id)}/cas/{self.quoted(ca_id)}", is_wrapped=True
        )
        return found

    def list_of_device(self, user_id: int, device_id: int) -> AsyncGenerator[AuthorityAssignment, None]:
        """List the device's authorities: all pages."""
        return self.pages(
            f"/apiv1/users/{self.quoted(user_id)}/devices/{self.quoted(device_id)}/cas",
            {"page": "object"},
            is_wrapped=True,
        )

    async def list_of_device_page(
        self, user_id: int, device_id: int, *, limit: int | None = None, after: int | None = None
    ) -> AuthorityAssignmentPage:
        """List the device's authorities: one page."""
        found: AuthorityAssignmentPage = await self.call(
            "GET",
            f"/apiv1/users/{self.quoted(user_id)}/devices/{self.quoted(device_id)}/cas",
            query={"limit": limit, "after": after, "page": "object"},
            is_wrapped=True,
        )
        return found

    async def assign(self, user_id: int, device_id: int, *, ca_id: int) -> AuthorityAssignment:
        """Assign the authority to the device, which must trust it."""
        found: AuthorityAssignment = await self.call(
            "POST",
            f"/apiv1/users/{self.quoted(user_id)}/devices/{self.quoted(device_id)}/cas",
            body=as_body(ca_id=ca_id),
            is_wrapped=True,
        )
        return found

    async def unassign(self, user_id: int, device_id: int, ca_id: int) -> None:
        """Unassign the authority from the device."""
        await self.call(
            "DELETE", f"/apiv1/users/{self.quoted(user_id)}/devices/{self.quoted(device_id)}/cas/{self.quoted(ca_id)}"
        )


class BlockingAuthorities(BlockingNoun[Authorities]):
    list = blocking_iterator(Authorities.list)
    list_page = blocking(Authorities.list_page)
    get = blocking(Authorities.get)
    create = blocking(Authorities.create)
    import_pem = blocking(Authorities.import_pem)
    list_by_expiry = blocking_iterator(Authorities.list_by_expiry)
    list_by_expiry_page = blocking(Authorities.list_by_expiry_page)
    delete = blocking(Authorities.delete)
    list_of_device = blocking_iterator(Authorities.list_of_device)
    list_of_device_page = blocking(Authorities.list_of_device_page)
    assign = blocking(Authorities.assign)
    unassign = blocking(Authorities.unassign)


class Accounts(Noun):
    def list(self, user_id: int) -> AsyncGenerator[Account, None]:
        """List the user's accounts: all pages."""
        return self.pages(f"/apiv1/users/{self.quoted(user_id)}/acme-accounts", {"page": "object"}, is_wrapped=True)

    async def list_page(self, user_id: int, *, limit: int | None = None, after: int | None = None) -> AccountPage:
        """List the user's accounts: one page."""
        found: AccountPage = await self.call(
            "GET",
            f"/apiv1/users/{self.quoted(user_id)}/acme-accounts",
            query={"limit": limit, "after": after, "page": "object"},
            is_wrapped=True,
        )
        return found

    async def get(self, user_id: int, acct_id: int) -> Account:
        """Show an account."""
        found: Account = await self.call(
            "GET", f"/apiv1/users/{self.quoted(user_id)}/acme-accounts/{self.quoted(acct_id)}", is_wrapped=True
        )
        return found

    async def create(
        self,
        user_id: int,
        *,
        name: str,
        email: str,
        provider: str,
        ca_id: int | UnsetType | None = UNSET,
        cert_valid_seconds: int | UnsetType | None = UNSET,
        leaf_key_algorithm: Literal["ECDSA", "RSA"] | Literal[""] | UnsetType | None = UNSET,
        leaf_ec_curve: str | UnsetType | None = UNSET,
        leaf_rsa_bits: int | UnsetType | None = UNSET,
    ) -> Account:
        """Create an account to issue through."""
        found: Account = await self.call(
            "POST",
            f"/apiv1/users/{self.quoted(user_id)}/acme-accounts",
            body=as_body(
                name=name,
                email=email,
                provider=provider,
                ca_id=ca_id,
                cert_valid_seconds=cert_valid_seconds,
                leaf_key_algorithm=leaf_key_algorithm,
                leaf_ec_curve=leaf_ec_curve,
                leaf_rsa_bits=leaf_rsa_bits,
            ),
            is_wrapped=True,
        )
        return found

    async def delete(self, user_id: int, acct_id: int) -> None:
        """Delete the account."""
        await self.call("DELETE", f"/apiv1/users/{self.quoted(user_id)}/acme-accounts/{self.quoted(acct_id)}")


class BlockingAccounts(BlockingNoun[Accounts]):
    list = blocking_iterator(Accounts.list)
    list_page = blocking(Accounts.list_page)
    get = blocking(Accounts.get)
    create = blocking(Accounts.create)
    delete = blocking(Accounts.delete)
