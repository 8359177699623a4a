"""`restante certificate`, `restante ca` and `restante account`: certificates for devices, and who issues them."""

from pathlib import Path
from typing import Annotated, Any

import typer

from restante.cli.output import Columns, joined, when
from restante.cli.remote import completion
from restante.cli.remote.arguments import (
    DeviceArgument,
    DeviceOption,
    UserOption,
    account_id,
    authority_id,
    given,
    path_of,
    user_id,
)
from restante.cli.remote.noun import Call, Item, Noun, Page
from restante.cli.remote.times import parse_duration
from restante.cli.remote.values import choice, whole_number
from restante.core.errors import BadInput

CERTIFICATE = Noun("Certificates of devices.")
CA = Noun("Certificate authorities.")
ACCOUNT = Noun(
    "Issuing accounts of certificates: which authority issues certificates, for how long and with which keys."
)
certificate_app, ca_app, account_app = CERTIFICATE.app, CA.app, ACCOUNT.app

IdArgument = Annotated[int, typer.Argument(metavar="ID", parser=whole_number, help="Its id.")]
NameArgument = Annotated[str, typer.Argument(metavar="NAME", help="Its name.")]
AuthorityOption = Annotated[
    str,
    typer.Option(
        "--ca", metavar="CA", help="The authority that issues: id or name.", autocompletion=completion.AUTHORITIES
    ),
]
AccountOption = Annotated[
    str,
    typer.Option(
        "--account",
        metavar="ACCOUNT",
        help="The account that issues it: id or name.",
        autocompletion=completion.ACCOUNTS,
    ),
]
# The parts of a subject, of certificates and authorities.
OrganizationOption = Annotated[
    str | None, typer.Option("--organization", metavar="TEXT", help="The organization in its subject (O).")
]
UnitOption = Annotated[
    str | None, typer.Option("--organizational-unit", metavar="TEXT", help="The department in its subject (OU).")
]
CountryOption = Annotated[
    str | None, typer.Option("--country", metavar="CODE", help="The country in its subject (C): two letters.")
]
StateOption = Annotated[
    str | None, typer.Option("--state", metavar="TEXT", help="The state or province in its subject (ST).")
]
LocalityOption = Annotated[str | None, typer.Option("--locality", metavar="TEXT", help="The town in its subject (L).")]
PemOption = Annotated[Path, typer.Option("--certificate", metavar="FILE", help="The certificate in PEM.")]
KeyOption = Annotated[Path, typer.Option("--key", metavar="FILE", help="The private key in PEM.")]
WithinArgument = Annotated[str, typer.Argument(metavar="TIME", help="Ends within this long, or before this time.")]
DAY_SECONDS = 86_400
REASONS = (
    "unspecified",
    "key_compromise",
    "affiliation_changed",
    "superseded",
    "cessation_of_operation",
    "privilege_withdrawn",
)
VALIDITY: Columns = {"status": "status", "devices": "devices_count", "valid until": when("not_after")}


@CERTIFICATE.lists({"id": "id", "name": "domain_name", "names": joined("sans"), **VALIDITY}, empty="No certificates.")
def list_certificates(call: Call, user: UserOption = None, device: DeviceOption = None) -> Page:
    """List certificates of a user, or those assigned to a device."""
    if device is not None:
        return call.page(call.client.certificates.list_of_device_page, *path_of(call, device))
    return call.page(call.client.certificates.list_page, user_id(call, user))


@CERTIFICATE.lists(
    {
        "id": "certificate_id",
        "user": "user_id",
        "name": "domain_name",
        "devices": "devices_count",
        "ends": when("not_after"),
        "renews": when("renews_at"),
        "problem": "renewal_error",
    },
    empty="No certificates end by then.",
    name="expiring",
)
def list_expiring_certificates(
    call: Call,
    expiring: WithinArgument = "30d",
    renewal: Annotated[str | None, choice("--renewal", ("failed", "on", "off"), "Only with this renewal.")] = None,
) -> Page:
    """List certificates of all users that end soon, the first to end first: when each is renewed, and what failed."""
    return call.page(call.client.certificates.list_by_expiry_page, expiring=expiring, renewal=renewal)


@CERTIFICATE.shows()
def show_certificate(call: Call, certificate: IdArgument, user: UserOption = None) -> Item:
    """Show a certificate."""
    return dict(call.client.certificates.get(user_id(call, user), certificate))


@CERTIFICATE.does("create", "Certificate {id} is made.")
def create_certificate(
    call: Call,
    domain_name: Annotated[str, typer.Argument(metavar="DOMAIN", help="The name that it is for: shop.example.com.")],
    acct_id: AccountOption,
    sans: Annotated[
        list[str] | None,
        typer.Option("--san", metavar="NAME", help="Another name or address that it is for; repeatable."),
    ] = None,
    organization: OrganizationOption = None,
    organizational_unit: UnitOption = None,
    country: CountryOption = None,
    state: StateOption = None,
    locality: LocalityOption = None,
    user: UserOption = None,
) -> Any:
    """Make a certificate for a name. `restante certificate renew` issues it."""
    owner = user_id(call, user)
    subject = given(
        organization=organization,
        organizational_unit=organizational_unit,
        country=country,
        state=state,
        locality=locality,
    )
    made = call.client.certificates.create(
        owner, domain_name=domain_name, acct_id=account_id(call, owner, acct_id), sans=sans or [], **subject
    )
    call.note(f"It is not issued yet: `restante certificate renew {made['id']} --user {owner}` issues it.")
    return made


@CERTIFICATE.does("import", "Certificate {id} is imported.")
def import_certificate(
    call: Call, certificate_pem: PemOption, private_key_pem: KeyOption, user: UserOption = None
) -> Any:
    """Import a certificate and its key."""
    return call.client.certificates.import_pem(
        user_id(call, user), certificate_pem=certificate_pem.read_text(), private_key_pem=private_key_pem.read_text()
    )


@CERTIFICATE.does("renew", "Certificate {id} is issued, valid until {not_after}.")
def renew(
    call: Call,
    certificate: IdArgument,
    user: UserOption = None,
    validity_seconds: Annotated[
        str | None,
        typer.Option("--valid-for", metavar="TIME", help="How long it is valid: 90d. Default: its account's."),
    ] = None,
) -> Any:
    """Issue a certificate, for the first time or again. The devices that have it get a signal."""
    validity = None if validity_seconds is None else parse_duration(validity_seconds, "--valid-for")
    return call.client.certificates.issue(user_id(call, user), certificate, **given(validity_seconds=validity))


@CERTIFICATE.does("update", "Certificate {id} is changed.")
def update_certificate(
    call: Call,
    certificate: IdArgument,
    auto_renew: Annotated[
        bool, typer.Option("--auto-renew/--no-auto-renew", help="Whether it is renewed by itself.", show_default=False)
    ],
    user: UserOption = None,
) -> Any:
    """Let a certificate be renewed by itself after two thirds of its life, or not."""
    return call.client.certificates.update(user_id(call, user), certificate, auto_renew=auto_renew)


@CERTIFICATE.does("delete", "Certificate {id} is revoked.", asks=True)
def delete_certificate(
    call: Call,
    certificate: IdArgument,
    user: UserOption = None,
    reason: Annotated[str, choice("--reason", REASONS, "Why, for the revocation list.")] = "unspecified",
) -> Any:
    """Revoke a certificate: devices lose it, and its authority's revocation list names it."""
    call.confirm(f"This revokes certificate {certificate}: devices that have it lose it. It cannot be undone.")
    return call.client.certificates.delete(user_id(call, user), certificate, **given(reason=reason))


@CERTIFICATE.does("assign", "Device {device_id} gets certificate {cert_id}.")
def assign_certificate(call: Call, certificate: IdArgument, device: DeviceArgument) -> Any:
    """Assign a certificate to a device. The device gets a signal."""
    owner, number = path_of(call, device)
    call.client.certificates.assign(owner, number, cert_id=certificate)
    return {"device_id": number, "cert_id": certificate}


@CERTIFICATE.does("unassign", "Device {device_id} no longer has certificate {cert_id}.", asks=True)
def unassign_certificate(call: Call, certificate: IdArgument, device: DeviceArgument) -> Any:
    """Unassign a certificate from a device. The device gets a signal."""
    call.confirm(f"This unassigns certificate {certificate} from device {device}.")
    owner, number = path_of(call, device)
    call.client.certificates.unassign(owner, number, certificate)
    return {"device_id": number, "cert_id": certificate}


@CA.lists({"id": "id", "name": "name", "subject": "common_name", **VALIDITY}, empty="No authorities.")
def list_authorities(call: Call, user: UserOption = None, device: DeviceOption = None) -> Page:
    """List authorities of a user, or those that a device trusts."""
    if device is not None:
        return call.page(call.client.authorities.list_of_device_page, *path_of(call, device))
    return call.page(call.client.authorities.list_page, user_id(call, user))


@CA.lists(
    {"id": "ca_id", "user": "user_id", "name": "name", "ends": when("not_after")},
    empty="No authorities end by then.",
    name="expiring",
)
def list_expiring_authorities(call: Call, expiring: WithinArgument = "90d") -> Page:
    """List authorities of all users that end soon, the first to end first. They are never renewed by themselves."""
    return call.page(call.client.authorities.list_by_expiry_page, expiring=expiring)


@CA.shows()
def show_authority(call: Call, ca: IdArgument, user: UserOption = None) -> Item:
    """Show an authority."""
    return dict(call.client.authorities.get(user_id(call, user), ca))


@CA.does("create", "Authority {id} is made.")
def create_authority(
    call: Call,
    name: NameArgument,
    algorithm: Annotated[str | None, choice("--algorithm", ("ECDSA", "RSA"), "Of its key. Default: ECDSA.")] = None,
    curve_name: Annotated[
        str | None, choice("--curve", ("P-256", "P-384", "P-521"), "Of an ECDSA key. Default: P-256.")
    ] = None,
    key_size: Annotated[
        int | None,
        typer.Option("--key-size", metavar="BITS", parser=whole_number, help="Of an RSA key. Default: 3072."),
    ] = None,
    valid_days: Annotated[
        str | None, typer.Option("--valid-for", metavar="TIME", help="How long it is valid. Default: 3650d.")
    ] = None,
    common_name: Annotated[
        str | None,
        typer.Option("--common-name", metavar="TEXT", help="The common name in its subject (CN). Default: its name."),
    ] = None,
    organization: OrganizationOption = None,
    organizational_unit: UnitOption = None,
    country: CountryOption = None,
    state: StateOption = None,
    locality: LocalityOption = None,
    max_path_length: Annotated[
        int | None,
        typer.Option(
            "--path-length", metavar="N", parser=whole_number, help="How many authorities may follow it. Default: any."
        ),
    ] = None,
    key_usage: Annotated[
        str | None,
        typer.Option(
            "--key-usage",
            metavar="NAMES",
            help="The uses of its key, with commas. Default: digitalSignature,keyCertSign,cRLSign.",
        ),
    ] = None,
    user: UserOption = None,
) -> Any:
    """Make an authority with a new key."""
    fields = given(
        algorithm=algorithm,
        curve_name=curve_name,
        key_size=key_size,
        valid_days=None if valid_days is None else _whole_days(valid_days, "--valid-for"),
        common_name=common_name,
        organization=organization,
        organizational_unit=organizational_unit,
        country=country,
        state=state,
        locality=locality,
        max_path_length=max_path_length,
        key_usage=key_usage,
    )
    return call.client.authorities.create(user_id(call, user), name=name, **fields)


def _whole_days(text: str, flag: str) -> int:
    seconds = parse_duration(text, flag)
    if seconds == 0 or seconds % DAY_SECONDS:
        raise BadInput(flag, "whole days or weeks, such as 365d")
    return seconds // DAY_SECONDS


@CA.does("import", "Authority {id} is imported.")
def import_authority(
    call: Call,
    name: NameArgument,
    ca_certificate_pem: PemOption,
    private_key_pem: KeyOption,
    user: UserOption = None,
) -> Any:
    """Import an authority and its key."""
    return call.client.authorities.import_pem(
        user_id(call, user),
        name=name,
        ca_certificate_pem=ca_certificate_pem.read_text(),
        private_key_pem=private_key_pem.read_text(),
    )


@CA.does("delete", "Authority {id} is deleted.", asks=True)
def delete_authority(call: Call, ca: IdArgument, user: UserOption = None) -> Any:
    """Delete an authority; devices no longer trust it."""
    call.confirm(f"This deletes authority {ca}: devices stop trusting it. It cannot be undone.")
    return call.client.authorities.delete(user_id(call, user), ca)


@CA.does("assign", "Device {device_id} trusts authority {ca_id}.")
def assign_authority(call: Call, ca: IdArgument, device: DeviceArgument) -> Any:
    """Let a device trust an authority. The device gets a signal."""
    owner, number = path_of(call, device)
    call.client.authorities.assign(owner, number, ca_id=ca)
    return {"device_id": number, "ca_id": ca}


@CA.does("unassign", "Device {device_id} no longer trusts authority {ca_id}.", asks=True)
def unassign_authority(call: Call, ca: IdArgument, device: DeviceArgument) -> Any:
    """Let a device stop trusting an authority. The device gets a signal."""
    call.confirm(f"Device {device} will stop trusting authority {ca}.")
    owner, number = path_of(call, device)
    call.client.authorities.unassign(owner, number, ca)
    return {"device_id": number, "ca_id": ca}


@ACCOUNT.lists({"id": "id", "name": "name", "provider": "provider", "authority": "ca_id"}, empty="No accounts.")
def list_accounts(call: Call, user: UserOption = None) -> Page:
    """List issuing accounts. The API calls them acme-accounts, a name that clients in the field use."""
    return call.page(call.client.accounts.list_page, user_id(call, user))


@ACCOUNT.shows()
def show_account(call: Call, account: IdArgument, user: UserOption = None) -> Item:
    """Show an issuing account."""
    return dict(call.client.accounts.get(user_id(call, user), account))


@ACCOUNT.does("create", "Account {id} is made.")
def create_account(
    call: Call,
    name: NameArgument,
    ca_id: AuthorityOption,
    email: Annotated[str, typer.Option("--email", metavar="EMAIL", help="The address of the person to contact.")],
    user: UserOption = None,
    cert_valid_seconds: Annotated[
        str, typer.Option("--valid-for", metavar="TIME", help="How long certificates are valid.")
    ] = "90d",
    leaf_key_algorithm: Annotated[str, choice("--algorithm", ("ECDSA", "RSA"), "The algorithm of keys.")] = "ECDSA",
) -> Any:
    """Make an issuing account of your own authority."""
    owner = user_id(call, user)
    is_ec = leaf_key_algorithm == "ECDSA"
    keys: dict[str, Any] = {"leaf_ec_curve": "prime256v1"} if is_ec else {"leaf_rsa_bits": 2048}
    keys["leaf_key_algorithm"] = leaf_key_algorithm
    return call.client.accounts.create(
        owner,
        name=name,
        email=email,
        provider="self",
        ca_id=authority_id(call, owner, ca_id),
        cert_valid_seconds=parse_duration(cert_valid_seconds, "--valid-for"),
        **keys,
    )


@ACCOUNT.does("delete", "Account {id} is deleted.", asks=True)
def delete_account(call: Call, account: IdArgument, user: UserOption = None) -> Any:
    """Delete an issuing account. Its certificates stay, and cannot be renewed."""
    call.confirm(f"This deletes account {account}: its certificates can no longer be renewed.")
    call.client.accounts.delete(user_id(call, user), account)
    return {"id": account, "deleted": True}
