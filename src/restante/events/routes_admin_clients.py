"""Clients of event polling, for operators: register, list, show, rotate, suspend, resume; and who did what to them.

A secret is shown once, when it is made.
"""

from collections.abc import Awaitable, Callable
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from restante.core.errors import BadInput
from restante.core.iso_time import iso, iso_or_none, iso_precise
from restante.database.database import Database
from restante.events import client_keys, clients, event_audit
from restante.events.access import AccessOptions
from restante.events.clients import Client, Method, Registered, Registration, SigningAlg
from restante.events.event_audit import AuditedAction
from restante.events.wire import SHAPE
from restante.web.ask import Ask
from restante.web.paging import PAGE_QUERY, Page, page_of_items, window_of
from restante.web.routes import Access, Query, Route

TAG = "event clients"
PATH = "/admin/clients"
AUDIT_PATH = "/admin/events/audit"

_BY_CLIENT = (*PAGE_QUERY, Query("client_id", "only of this client", {"type": "string"}))


class ClientBody(msgspec.Struct, forbid_unknown_fields=True):
    """`jwks` goes with private_key_jwt, `tls_client_auth_subject_dn` with tls_client_auth, neither with a secret."""

    name: Annotated[str, Meta(min_length=1, max_length=clients.NAME_LENGTH_MAX)]
    token_endpoint_auth_method: Method
    client_id: Annotated[str, Meta(min_length=1, max_length=clients.CLIENT_ID_LENGTH_MAX)] | None = None
    jwks: dict[str, Any] | None = None
    tls_client_auth_subject_dn: str | None = None
    set_signing_alg: SigningAlg | None = None
    scope: str = clients.SCOPES[0]


class RotationBody(msgspec.Struct, forbid_unknown_fields=True):
    """What replaces the client's keys or subject; nothing where it has a secret: a new one is made."""

    jwks: dict[str, Any] | None = None
    tls_client_auth_subject_dn: str | None = None


class RegisteredView(msgspec.Struct, frozen=True, omit_defaults=True):
    """`client_secret` is shown this once, and only where the client has one."""

    client_id: str
    client_secret: str | None = None


class ClientView(msgspec.Struct, frozen=True):
    id: int
    client_id: str
    name: str
    status: Literal["active", "suspended"]
    token_endpoint_auth_method: Method
    kids: list[str]
    tls_client_auth_subject_dn: str | None
    scope: str
    set_signing_alg: SigningAlg
    created_at: str
    suspended_at: str | None
    last_poll_at: str | None


class ActionView(msgspec.Struct, frozen=True):
    id: int
    at: str
    actor: str
    event: str
    client_id: str | None
    detail: msgspec.Raw


class AdminClientRoutes:
    def __init__(self, database: Database, options: AccessOptions, warn: Callable[[], Awaitable[None]]) -> None:
        self._database = database
        self._options = options
        # Tells the log how clients reach us, when there is one more to reach us.
        self._warn = warn

    def routes(self) -> list[Route]:
        def route(method: str, path: str, handler: Any, access: Access, summary: str, **more: Any) -> Route:
            return Route(method, path, handler, access, summary, shape=SHAPE, tag=TAG, **more)

        one = PATH + "/{client_id}"
        administer = Access.administer
        return [
            route("POST", PATH, self.add, administer, "Register a client", status=201, refusals=(409,)),
            route("GET", PATH, self.list_page, Access.read, "List clients", query=PAGE_QUERY),
            route("GET", one, self.get, Access.read, "Show a client"),
            route(
                "POST",
                one + "/rotate",
                self.rotate,
                administer,
                "Replace a client's secret, keys or subject",
                body_optional=True,
            ),
            route("POST", one + "/suspend", self.suspend, administer, "Suspend a client"),
            route("POST", one + "/resume", self.resume, administer, "Let a suspended client in again"),
            route(
                "GET", AUDIT_PATH, self.audit, Access.read, "Who did what to clients, newest first", query=_BY_CLIENT
            ),
        ]

    async def add(self, ask: Ask, body: ClientBody) -> RegisteredView:
        refuse_secret(body.token_endpoint_auth_method, self._options)
        made = await self._database.write(clients.add, registration(body, self._options), ask.actor)
        await self._warn()
        return view_of_registered(made)

    async def list_page(self, ask: Ask) -> Page[ClientView]:
        window = window_of(ask)
        found = await self._database.read(clients.list_some, window.after, window.limit + 1)
        return page_of_items([view(each) for each in found], window, lambda each: each.id)

    async def get(self, ask: Ask) -> ClientView:
        return view(await self._database.read(clients.get, ask.path_text("client_id")))

    async def rotate(self, ask: Ask, body: RotationBody) -> RegisteredView:
        """Of the same method as before. The client's access tokens end at once."""
        client_id, subject = ask.path_text("client_id"), body.tls_client_auth_subject_dn
        made = await self._database.write(clients.rotate, client_id, body.jwks, subject, ask.actor)
        return view_of_registered(made)

    async def suspend(self, ask: Ask) -> ClientView:
        """Refused everywhere from now on; its access tokens end, its events are kept."""
        return view(await self._database.write(clients.suspend, ask.path_text("client_id"), ask.actor))

    async def resume(self, ask: Ask) -> ClientView:
        return view(await self._database.write(clients.resume, ask.path_text("client_id"), ask.actor))

    async def audit(self, ask: Ask) -> Page[ActionView]:
        """`next` is the `after` of the page of what was done before."""
        client_id = ask.query_text("client_id")
        if client_id is not None and not clients.is_client_id(client_id):
            raise BadInput("client_id", "the client_id of a client")
        page = await self._database.read(event_audit.list_page, client_id, window_of(ask))
        return Page([view_of_action(each) for each in page.items], page.next)


def registration(body: ClientBody, options: AccessOptions) -> Registration:
    return Registration(
        body.name,
        body.token_endpoint_auth_method,
        body.client_id,
        body.jwks,
        body.tls_client_auth_subject_dn,
        body.set_signing_alg or options.set_signing_alg,
        body.scope,
    )


def refuse_secret(method: Method, options: AccessOptions) -> None:
    """A client that could never get a token is better not registered."""
    if method == "client_secret_basic" and not options.is_development:
        raise BadInput(
            "token_endpoint_auth_method",
            "tls_client_auth or private_key_jwt: client_secret_basic is for development on this machine only",
        )


def view(client: Client) -> ClientView:
    return ClientView(
        id=client.id,
        client_id=client.client_id,
        name=client.name,
        status="active" if client.suspended_at is None else "suspended",
        token_endpoint_auth_method=client.credentials.method,
        kids=client_keys.kids(client.credentials.jwks),
        tls_client_auth_subject_dn=client.credentials.subject_dn,
        scope=client.scope,
        set_signing_alg=client.set_signing_alg,
        created_at=iso(client.created_at),
        suspended_at=iso_or_none(client.suspended_at),
        last_poll_at=iso_or_none(client.last_poll_at),
    )


def view_of_registered(made: Registered) -> RegisteredView:
    return RegisteredView(made.client_id, made.client_secret)


def view_of_action(action: AuditedAction) -> ActionView:
    at = iso_precise(action.at_ms)
    return ActionView(action.id, at, action.actor, action.event, action.client_id, action.detail)
