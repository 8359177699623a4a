"""Operator routes for clients: register, list, show, rotate, suspend and resume them, and read the audit log.

A client secret is shown once, in the response to the request that creates it.
"""

from collections.abc import Awaitable, Callable, Iterable
from typing import Annotated, Any, get_args

import msgspec
from msgspec import Meta

from restante.core.errors import BadInput
from restante.core.events.callback_url import LENGTH_MAX
from restante.core.iso_time import Timestamp, iso_precise
from restante.database.connection import Connection
from restante.database.database import Database
from restante.database.lists.filtered_list import StateCounts
from restante.database.paging import Page, PageRequest
from restante.events.clients import client_scope, clients, refusals, removal
from restante.events.clients.access import AccessOptions
from restante.events.clients.authentication import client_keys
from restante.events.clients.authentication.remote_keys import RemoteKeys
from restante.events.clients.clients import (
    AuthMethod,
    ClientFilter,
    ClientRegistration,
    ClientState,
    EventClient,
    PublishedKeys,
    RegisteredClient,
    SigningAlg,
)
from restante.events.clients.refusals import RefusalSummary
from restante.events.publishing import event_audit
from restante.events.publishing.event_audit import AuditedAction
from restante.events.response_format import RESPONSE_FORMAT
from restante.identity import tags
from restante.identity.clients.scopes import SCOPES
from restante.identity.grants import AllowedIds, Area
from restante.web.paging import (
    FORMAT,
    PAGE_QUERY,
    TIME,
    check_filters,
    counted,
    export,
    export_info,
    page_request_of,
    query_choice,
    query_moment,
    query_prefix,
)
from restante.web.request import ApiRequest
from restante.web.response import ApiResponse
from restante.web.routes import Access, Query, Route, RouteGroup

TAG = "event clients"
PATH = "/admin/clients"
AUDIT_PATH = "/admin/events/audit"

_BY_CLIENT = (*PAGE_QUERY, Query("client_id", "only actions on this client", {"type": "string"}))
_FILTERS = (
    Query("name", "only clients whose name begins with this", {"type": "string", "minLength": 1}),
    Query("status", "only clients with this status", {"type": "string", "enum": list(clients.STATES)}),
    Query(
        "token_endpoint_auth_method",
        "only clients that authenticate like this",
        {"type": "string", "enum": list(get_args(AuthMethod))},
    ),
    Query("scope", "only clients that have this scope", {"type": "string", "enum": list(SCOPES)}),
    Query("polled_before", "only clients that have not polled since this time, or for this long", TIME),
    Query("polled_after", "only clients that have polled since this time, or within this long", TIME),
)
_LIST_QUERY = (*PAGE_QUERY, *_FILTERS)
_EXPORT_QUERY = (*_FILTERS, FORMAT)
_EXAMPLE = {
    "name": "Example TPP",
    "token_endpoint_auth_method": "tls_client_auth",
    "tls_client_auth_subject_dn": "CN=tpp.example,O=Example",
    "scope": "eventpolling",
}


class ClientBody(msgspec.Struct, forbid_unknown_fields=True):
    """`tls_client_auth_subject_dn` goes with tls_client_auth. A client with private_key_jwt has its public keys in
    `jwks`, or publishes them at `jwks_uri`, which the server reads again when a key is new; other clients may have keys
    for their message signatures."""

    name: Annotated[str, Meta(min_length=1, max_length=clients.NAME_LENGTH_MAX)]
    token_endpoint_auth_method: AuthMethod
    client_id: Annotated[str, Meta(min_length=1, max_length=clients.CLIENT_ID_LENGTH_MAX)] | None = None
    jwks: dict[str, Any] | None = None
    jwks_uri: Annotated[str, Meta(min_length=1, max_length=LENGTH_MAX)] | None = None
    tls_client_auth_subject_dn: str | None = None
    set_signing_alg: SigningAlg | None = None
    scope: str = SCOPES[0]


class ClientRotationBody(msgspec.Struct, forbid_unknown_fields=True):
    """The new keys or subject of the client; empty for a client with a secret, which gets a new secret."""

    jwks: dict[str, Any] | None = None
    jwks_uri: Annotated[str, Meta(min_length=1, max_length=LENGTH_MAX)] | None = None
    tls_client_auth_subject_dn: str | None = None


class RegisteredClientView(msgspec.Struct, frozen=True, omit_defaults=True):
    """`client_secret` is shown once, and only if the client has one."""

    client_id: str
    client_secret: str | None = None


class ClientView(msgspec.Struct, frozen=True):
    id: int
    client_id: str
    name: str
    status: ClientState
    token_endpoint_auth_method: AuthMethod
    kids: list[str]
    jwks_uri: str | None
    jwks_read_at: Timestamp | None
    tls_client_auth_subject_dn: str | None
    scope: str
    set_signing_alg: SigningAlg
    created_at: Timestamp
    suspended_at: Timestamp | None
    last_poll_at: Timestamp | None
    removed_at: Timestamp | None = None
    tags: list[str] = msgspec.field(default_factory=list)


class AuditedActionView(msgspec.Struct, frozen=True):
    id: int
    at: Timestamp
    actor: str
    event: str
    client_id: str | None
    detail: msgspec.Raw


class RefusalSummaryList(msgspec.Struct, frozen=True):
    items: list[RefusalSummary]


# Makes the signing keys of these algorithms, where they are missing.
MakeKeys = Callable[[Iterable[str]], Awaitable[None]]


class AdminClientRoutes:
    def __init__(
        self,
        database: Database,
        options: AccessOptions,
        warn: Callable[[], Awaitable[None]],
        make_keys: MakeKeys,
        newest_poll: Callable[[int, int | None], int | None],
        remote_keys: RemoteKeys,
    ) -> None:
        self._database = database
        # The last poll of a client in memory, if it is newer than the stored one.
        self._newest_poll = newest_poll
        self._options = options
        self._remote_keys = remote_keys
        self._make_keys = make_keys
        # Logs how the settings weaken the access of clients; called after each registration.
        self._warn = warn

    def routes(self) -> list[Route]:
        group = RouteGroup(TAG, RESPONSE_FORMAT, area=Area.events)

        one = PATH + "/{client_id}"
        administer = Access.administer
        return [
            group.post(
                PATH, self.add, administer, "Register a client", status=201, errors=(409,), examples=(_EXAMPLE,)
            ),
            group.get(PATH, self.list_page, Access.read, "List clients", query=_LIST_QUERY),
            group.get(PATH + "/counts", self.counts, Access.read, "Count clients by status", query=_FILTERS),
            group.get(
                PATH + "/export",
                self.export,
                Access.read,
                "Export clients as a file",
                query=_EXPORT_QUERY,
                responses=(export_info(ClientView),),
            ),
            group.get(one, self.get, Access.read, "Show a client"),
            group.post(
                one + "/rotate",
                self.rotate,
                administer,
                "Replace a client's secret, keys or subject",
                body_optional=True,
                examples=({},),
                errors=(409,),
            ),
            group.post(one + "/suspend", self.suspend, administer, "Suspend a client", errors=(409,)),
            group.post(one + "/resume", self.resume, administer, "Resume a suspended client", errors=(409,)),
            group.get(one + "/refusals", self.refusals, Access.read, "Why the token endpoint refused a client"),
            group.delete(one, self.remove, administer, "Remove a client"),
            group.get(AUDIT_PATH, self.audit, Access.read, "List what operators did, newest first", query=_BY_CLIENT),
        ]

    async def add(self, request: ApiRequest, body: ClientBody) -> RegisteredClientView:
        request.require_all("this registers a client")
        check_auth_method(body.token_endpoint_auth_method, self._options)
        registration = registration_of(body, await self._published(body), self._options)
        registered = await self._database.write(clients.add, registration, request.actor)
        await self._make_keys(clients.event_algorithms(registration.scope, registration.set_signing_alg))
        await self._warn()
        return registered_view(registered)

    async def _published(self, body: ClientBody | ClientRotationBody) -> PublishedKeys | None:
        """The keys at the address of the body. An address beside keys is refused without being read."""
        if body.jwks_uri is None:
            return None
        return PublishedKeys(body.jwks_uri, "") if body.jwks else await self._remote_keys.read(body.jwks_uri)

    async def list_page(self, request: ApiRequest) -> Page[ClientView]:
        check_filters(request, _LIST_QUERY)
        return await self._page(_filter_of(request), page_request_of(request), request.allowed)

    async def counts(self, request: ApiRequest) -> StateCounts:
        """Exact up to 10,000,000 examined clients; beyond, `is_exact` is false. Counts of
        long lists are kept for a while: `counted_at` is their time."""
        check_filters(request, _FILTERS)
        filters = _filter_of(request)
        return await counted(request, self._database, lambda: clients.counting(filters, request.allowed))

    async def export(self, request: ApiRequest) -> ApiResponse:
        """All clients that match, as CSV with a header row or as a JSON array, sent in parts."""
        check_filters(request, _EXPORT_QUERY)
        filters = _filter_of(request)
        return await export(request, "clients", ClientView, lambda page: self._page(filters, page, request.allowed))

    async def _page(self, filters: ClientFilter, page: PageRequest, allowed: AllowedIds) -> Page[ClientView]:
        found, tagged = await self._database.read(_list, filters, page, allowed)
        return Page([self._current_view(each, tagged[each.id]) for each in found.items], found.next)

    async def get(self, request: ApiRequest) -> ClientView:
        client, own_tags = await self._database.read(_get, _client_id_of(request))
        return self._current_view(client, own_tags)

    def _current_view(self, client: EventClient, own_tags: list[str]) -> ClientView:
        """The client with its tags and with the last poll that this server has in memory."""
        polled_at = iso_precise(self._newest_poll(client.id, client.last_poll_at))
        return msgspec.structs.replace(client_view(client), last_poll_at=polled_at, tags=own_tags)

    async def rotate(self, request: ApiRequest, body: ClientRotationBody) -> RegisteredClientView:
        """The method stays the same. The client's access tokens end at once."""
        client_id, subject = _client_id_of(request), body.tls_client_auth_subject_dn
        published = await self._published(body)
        registered = await self._database.write(clients.rotate, client_id, body.jwks, subject, request.actor, published)
        return registered_view(registered)

    async def suspend(self, request: ApiRequest) -> ClientView:
        """Refuse all requests of the client. Its access tokens end; its events are kept."""
        return client_view(await self._database.write(clients.suspend, _client_id_of(request), request.actor))

    async def resume(self, request: ApiRequest) -> ClientView:
        return client_view(await self._database.write(clients.resume, _client_id_of(request), request.actor))

    async def refusals(self, request: ApiRequest) -> RefusalSummaryList:
        """For each reason the last refusal, with more details than the client's response had."""
        return RefusalSummaryList(await self._database.read(refusals.last_refusals, _client_id_of(request)))

    async def remove(self, request: ApiRequest) -> ClientView:
        """All access ends at once, undelivered events are dropped, and nothing is published to the client any more. Its
        events and audit rows stay, and its client_id is not free again. Removing is final."""
        return client_view(await self._database.write(removal.remove, _client_id_of(request), request.actor))

    async def audit(self, request: ApiRequest) -> Page[AuditedActionView]:
        """`next` is the `after` of the next, older page."""
        client_id = request.query_text("client_id")
        if client_id is not None and not clients.is_client_id(client_id):
            raise BadInput("client_id", "the client_id of a client")
        page = await self._database.read(event_audit.list_page, client_id, page_request_of(request), request.allowed)
        return Page([action_view(each) for each in page.items], page.next)


def _list(
    conn: Connection, filters: ClientFilter, page: PageRequest, allowed: AllowedIds
) -> tuple[Page[EventClient], dict[int, list[str]]]:
    found = clients.list_page(conn, filters, page, allowed)
    return found, tags.tags_of_all(conn, "client", [client.id for client in found.items])


def _get(conn: Connection, client_id: str) -> tuple[EventClient, list[str]]:
    client = clients.get(conn, client_id)
    return client, tags.tags_of(conn, "client", client.id)


def _filter_of(request: ApiRequest) -> ClientFilter:
    return ClientFilter(
        name=query_prefix(request, "name"),
        status=query_choice(request, "status", clients.STATES),
        method=query_choice(request, "token_endpoint_auth_method", get_args(AuthMethod)),
        scope=query_choice(request, "scope", SCOPES),
        polled_before_ms=query_moment(request, "polled_before"),
        polled_after_ms=query_moment(request, "polled_after"),
    )


def _client_id_of(request: ApiRequest) -> str:
    """The client of the path; NotFound if it is outside the caller's grants."""
    client_id = request.path_text("client_id")
    client_scope.check_client(request.allowed, client_id)
    return client_id


def registration_of(body: ClientBody, published: PublishedKeys | None, options: AccessOptions) -> ClientRegistration:
    return ClientRegistration(
        body.name,
        body.token_endpoint_auth_method,
        body.client_id,
        body.jwks,
        body.tls_client_auth_subject_dn,
        body.set_signing_alg or options.set_signing_alg,
        body.scope,
        published,
    )


def check_auth_method(method: AuthMethod, options: AccessOptions) -> None:
    """Refuse to register a client with a secret where it could never get a token."""
    if method == "client_secret_basic" and not options.is_development:
        raise BadInput(
            "token_endpoint_auth_method",
            "tls_client_auth or private_key_jwt: client_secret_basic is for development on this machine only",
        )


def client_view(client: EventClient) -> ClientView:
    return ClientView(
        id=client.id,
        client_id=client.client_id,
        name=client.name,
        status=client.status,
        token_endpoint_auth_method=client.credentials.method,
        kids=client_keys.kids(client.credentials.jwks),
        jwks_uri=client.credentials.jwks_uri,
        jwks_read_at=iso_precise(client.jwks_read_at),
        tls_client_auth_subject_dn=client.credentials.subject_dn,
        scope=client.scope,
        set_signing_alg=client.set_signing_alg,
        created_at=iso_precise(client.created_at),
        suspended_at=iso_precise(client.suspended_at),
        last_poll_at=iso_precise(client.last_poll_at),
        removed_at=iso_precise(client.removed_at),
    )


def registered_view(registered: RegisteredClient) -> RegisteredClientView:
    return RegisteredClientView(registered.client_id, registered.client_secret)


def action_view(action: AuditedAction) -> AuditedActionView:
    at = iso_precise(action.at_ms)
    return AuditedActionView(action.id, at, action.actor, action.event, action.client_id, action.detail)
