"""Operator routes for certificate authorities, the devices that trust them, and the accounts they serve."""

import asyncio
from functools import partial
from typing import Annotated

import msgspec
from msgspec import Meta

from restante.database.database import Database
from restante.delivery.signals import Emit
from restante.identity.master_key import MasterKey
from restante.updates import accounts, authorities
from restante.updates.accounts import Account
from restante.updates.authorities import Authority, AuthorityAssignment, SealedAuthority
from restante.updates.authority_wishes import (
    AuthorityWish,
    SubjectText,
    check_printable,
    check_wish,
    fulfil_wish,
)
from restante.updates.ownership import require_user
from restante.updates.sealing import AUTHORITY_KEY_PURPOSE
from restante.updates.wire import SHAPE
from restante.updates.x509 import Keyed, at_moment
from restante.updates.x509_imports import read_authority
from restante.web.ask import INT64_MAX, Ask
from restante.web.paging import PAGE_QUERY, Page, window_of
from restante.web.routes import Access, Route

CAS = "/apiv1/users/{user_id}/cas"
CA = CAS + "/{ca_id}"
DEVICE_CAS = "/apiv1/users/{user_id}/devices/{device_id}/cas"
DEVICE_CA = DEVICE_CAS + "/{ca_id}"
ACCOUNTS = "/apiv1/users/{user_id}/acme-accounts"
ACCOUNT = ACCOUNTS + "/{acct_id}"

Id = Annotated[int, Meta(ge=1, le=INT64_MAX)]
Pem = Annotated[str, Meta(min_length=1, max_length=65536)]


class AuthorityImport(msgspec.Struct, forbid_unknown_fields=True):
    name: SubjectText
    ca_certificate_pem: Pem
    private_key_pem: Pem


class ChosenAuthority(msgspec.Struct, forbid_unknown_fields=True):
    ca_id: Id


class NewAccount(msgspec.Struct, forbid_unknown_fields=True):
    name: SubjectText
    email: Annotated[str, Meta(min_length=3, max_length=254)]
    provider: SubjectText
    ca_id: Id | None = None


class AuthorityRoutes:
    def __init__(self, database: Database, emit: Emit, master_key: MasterKey) -> None:
        self._database = database
        self._emit = emit
        self._master_key = master_key

    def routes(self) -> list[Route]:
        row = partial(Route, shape=SHAPE, tag="certificate authorities", refusals=(404,))
        change = partial(Route, shape=SHAPE, tag="certificate authorities", refusals=(404, 409))
        return [
            row("POST", CAS, self.create, Access.operate, "Make a certificate authority"),
            row("GET", CAS, self.list, Access.read, "The user's certificate authorities", query=PAGE_QUERY),
            row("POST", CAS + "/import", self.import_, Access.operate, "Take over an authority"),
            row("GET", CA, self.get, Access.read, "A certificate authority"),
            row("DELETE", CA, self.revoke, Access.operate, "Revoke the authority, take it from all devices"),
            row("GET", DEVICE_CAS, self.of_device, Access.read, "The device's authorities", query=PAGE_QUERY),
            change("POST", DEVICE_CAS, self.assign, Access.operate, "Have the device trust the authority"),
            change("DELETE", DEVICE_CA, self.unassign, Access.operate, "Take it from the device", status=204),
        ]

    async def create(self, ask: Ask, body: AuthorityWish) -> Authority:
        check_wish(body)
        user_id = ask.path_id("user_id")
        now_ms = await self._database.read(require_user, user_id)
        keyed = await asyncio.to_thread(fulfil_wish, body, at_moment(now_ms))
        return await self._add(user_id, body.name, keyed)

    async def import_(self, ask: Ask, body: AuthorityImport) -> Authority:
        check_printable(body.name, "name")
        user_id = ask.path_id("user_id")
        now_ms = await self._database.read(require_user, user_id)
        keyed = await asyncio.to_thread(
            read_authority, body.ca_certificate_pem, body.private_key_pem, at_moment(now_ms)
        )
        return await self._add(user_id, body.name, keyed)

    async def list(self, ask: Ask) -> Page[Authority]:
        return await self._database.read(authorities.list_of_user, ask.path_id("user_id"), window_of(ask))

    async def get(self, ask: Ask) -> Authority:
        return await self._database.read(authorities.get, ask.path_id("user_id"), ask.path_id("ca_id"))

    async def revoke(self, ask: Ask) -> Authority:
        user_id, ca_id = ask.path_id("user_id"), ask.path_id("ca_id")
        return await self._database.write(authorities.revoke, self._emit, user_id, ca_id)

    async def of_device(self, ask: Ask) -> Page[AuthorityAssignment]:
        user_id, device_id = ask.path_id("user_id"), ask.path_id("device_id")
        return await self._database.read(authorities.list_of_device, user_id, device_id, window_of(ask))

    async def assign(self, ask: Ask, body: ChosenAuthority) -> AuthorityAssignment:
        user_id, device_id = ask.path_id("user_id"), ask.path_id("device_id")
        return await self._database.write(authorities.assign, self._emit, user_id, device_id, body.ca_id)

    async def unassign(self, ask: Ask) -> None:
        user_id, device_id = ask.path_id("user_id"), ask.path_id("device_id")
        await self._database.write(authorities.unassign, self._emit, user_id, device_id, ask.path_id("ca_id"))

    async def _add(self, user_id: int, name: str, keyed: Keyed) -> Authority:
        sealed_key = self._master_key.seal(keyed.private_key_der, AUTHORITY_KEY_PURPOSE)
        made = SealedAuthority(name, keyed.certificate, sealed_key)
        return await self._database.write(authorities.add, user_id, made)


class AccountRoutes:
    def __init__(self, database: Database) -> None:
        self._database = database

    def routes(self) -> list[Route]:
        row = partial(Route, shape=SHAPE, tag="accounts", refusals=(404,))
        return [
            row("POST", ACCOUNTS, self.create, Access.operate, "Make an account to issue through"),
            row("GET", ACCOUNTS, self.list, Access.read, "The user's accounts", query=PAGE_QUERY),
            row("GET", ACCOUNT, self.get, Access.read, "An account"),
            row("DELETE", ACCOUNT, self.delete, Access.operate, "Delete the account", status=204),
        ]

    async def create(self, ask: Ask, body: NewAccount) -> Account:
        check_printable(body.name, "name")
        check_printable(body.provider, "provider")
        return await self._database.write(
            accounts.add, ask.path_id("user_id"), body.name, body.email, body.provider, body.ca_id
        )

    async def list(self, ask: Ask) -> Page[Account]:
        return await self._database.read(accounts.list_of_user, ask.path_id("user_id"), window_of(ask))

    async def get(self, ask: Ask) -> Account:
        return await self._database.read(accounts.get, ask.path_id("user_id"), ask.path_id("acct_id"))

    async def delete(self, ask: Ask) -> None:
        await self._database.write(accounts.delete, ask.path_id("user_id"), ask.path_id("acct_id"))
