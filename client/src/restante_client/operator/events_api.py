"""Operator routes: clients, events, event keys, streams.

Generated from the server's routes by `scripts/generate-operator-client`; do not edit.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from typing import Any, Literal, TypedDict

from msgspec import UNSET, UnsetType

from restante_client.operator.core import BlockingNoun, Noun, as_body
from restante_client.runtime import blocking, blocking_iterator


class ClientView(TypedDict, total=False):
    id: int
    client_id: str
    name: str
    status: Literal["active", "removed", "suspended"]
    token_endpoint_auth_method: Literal["client_secret_basic", "private_key_jwt", "tls_client_auth"]
    kids: list[str]
    jwks_uri: str | None
    jwks_read_at: str | None
    tls_client_auth_subject_dn: str | None
    scope: str
    set_signing_alg: Literal["ES256", "EdDSA", "PS256", "RS256"]
    created_at: str
    suspended_at: str | None
    last_poll_at: str | None
    removed_at: str | None
    tags: list[str]


class ClientViewPage(TypedDict, total=False):
    """`next` is the `after` of the next page, or None on the last page."""

    items: list[ClientView]
    next: int | None


class RegisteredClientView(TypedDict, total=False):
    """`client_secret` is shown once, and only if the client has one."""

    client_id: str
    client_secret: str | None


class StateCounts(TypedDict, total=False):
    """How many items match the filter, and how many of these are in each state; and when they were counted."""

    total: ItemCount
    states: dict[str, Any]
    counted_at: str


class ItemCount(TypedDict, total=False):
    """How many items match; if `is_exact` is false, at least as many."""

    value: int
    is_exact: bool


class ClientExplanation(TypedDict, total=False):
    """`until`: when the wait ends at the latest, if known. `waiting`: events that were not delivered yet, `unsigned`
    of these are still to be signed; `delivered`: delivered and not acknowledged. All times are UTC.
    """

    client_id: str
    status: Literal["active", "suspended"]
    waiting_for: Literal[
        "access",
        "acknowledgement",
        "delivery_window",
        "errored_events",
        "first_poll",
        "nothing",
        "poll",
        "receiver",
        "resumption",
        "signing",
    ]
    sentence: str
    until: str | None
    waiting: int
    unsigned: int
    delivered: int
    errored: int
    oldest_at: str | None
    delivered_at: str | None
    last_poll_at: str | None
    last_refusal: RefusalSummary | None


class RefusalSummary(TypedDict, total=False):
    """All refusals of a client for one reason; `detail` and `address` are those of the last one."""

    reason: str
    count: int
    detail: str
    address: str | None
    first_at: str
    last_at: str


class TagList(TypedDict, total=False):
    """All tags of a resource, in alphabetical order."""

    tags: list[str]


class RefusalSummaryList(TypedDict, total=False):
    items: list[RefusalSummary]


class AuditedActionView(TypedDict, total=False):
    id: int
    at: str
    actor: str
    event: str
    client_id: str | None
    detail: Any


class AuditedActionViewPage(TypedDict, total=False):
    """`next` is the `after` of the next page, or None on the last page."""

    items: list[AuditedActionView]
    next: int | None


class EventView(TypedDict, total=False):
    jti: str
    client_id: str
    txn: str
    event_types: list[str]
    profile: str
    status: str
    kid: str | None
    created_at: str
    finished_at: str | None
    errored_at: str | None
    err: str | None
    err_description: str | None


class EventViewPage(TypedDict, total=False):
    """`next` is the `after` of the next page, or None on the last page."""

    items: list[EventView]
    next: int | None


class EventDetail(TypedDict, total=False):
    """An event with its token claims, its first delivery by a poll, and its failed pushes: `push_attempts` since it
    was last released or delivered again, `failed_pushes` the times of the last hundred of all. Later deliveries
    by polls are not recorded: a poll that gets only events that it got before writes nothing.
    """

    jti: str
    client_id: str
    txn: str
    event_types: list[str]
    profile: str
    status: str
    kid: str | None
    created_at: str
    finished_at: str | None
    errored_at: str | None
    err: str | None
    err_description: str | None
    claims: dict[str, Any]
    first_polled_at: str | None
    push_attempts: int
    push_due_at: str | None
    push_problem: str | None
    failed_pushes: list[str]


class PublishResponse(TypedDict, total=False):
    """`jti` if the event named a client and needs one token, else `jtis`, empty if no client subscribed to it."""

    jti: str
    jtis: list[str]


class EventBulkFilter(TypedDict, total=False):
    """Events of a client, of a transaction, with an error code, or of a time. `since`, `until`: when the event was
    published. `acknowledged_since`: when the client acknowledged it.
    """

    client_id: str | None
    txn: str | None
    err: str | None
    since: str | None
    until: str | None
    acknowledged_since: str | None


class JobView(TypedDict, total=False):
    """A job and its progress. `total`: how many rows matched when it was created. `done`, `failed`, `skipped`:
    items. `outcomes`, for actions that only start something: what became of it, by state. A bulk send of commands
    shows how many of them are pending, succeeded or failed.
    """

    job_id: str
    target: str
    action: str
    filter: Any
    params: Any
    state: str
    reason: str | None
    total: int
    done: int
    failed: int
    skipped: int
    rate_per_second: int | None
    created_by: str
    created_at: str
    approved_by: str | None
    started_at: str | None
    finished_at: str | None
    outcomes: dict[str, Any] | None


class ClientStatus(TypedDict, total=False):
    client_id: str
    name: str
    is_suspended: bool
    is_removed: bool
    waiting: int
    delivered: int
    errored: int
    oldest_at: str | None
    oldest_age_seconds: float | None
    last_poll_at: str | None


class ClientStatusPage(TypedDict, total=False):
    """`next` is the `after` of the next page, or None on the last page."""

    items: list[ClientStatus]
    next: int | None


class ClientStatusDetail(TypedDict, total=False):
    client_id: str
    name: str
    is_suspended: bool
    is_removed: bool
    waiting: int
    delivered: int
    errored: int
    oldest_at: str | None
    oldest_age_seconds: float | None
    last_poll_at: str | None
    unsigned: int
    reasons: list[ErrorReason]
    receivers: list[ReceiverStatus]


class ErrorReason(TypedDict, total=False):
    err: str
    count: int
    newest_description: str | None


class ReceiverStatus(TypedDict, total=False):
    """The push target of a client for one profile, and the recent results."""

    profile: str
    url: str
    failures: int
    problem: str | None
    waiting: int
    last_tried_at: str | None
    last_delivered_at: str | None


class ResolvedCount(TypedDict, total=False):
    """The number of events that were released or dropped."""

    count: int


class EventKeyList(TypedDict, total=False):
    items: list[EventKeyView]


class EventKeyView(TypedDict, total=False):
    """A key as operators see it."""

    kid: str
    alg: str
    status: str
    created_at: str
    signs_from: str
    published_until: str | None
    withdrawn_at: str | None


class RotatedEventKey(TypedDict, total=False):
    kid: str
    signs_from: str


class WithdrawnEventKey(TypedDict, total=False):
    """`signed_again`: the number of tokens that no client had received."""

    kid: str
    signed_again: int


class StreamRow(TypedDict, total=False):
    id: int
    stream_id: str
    client_id: str
    status: Literal["disabled", "enabled", "paused"]
    reason: str | None
    events_delivered: list[str]
    description: str | None
    push_url: str | None


class StreamRowPage(TypedDict, total=False):
    """`next` is the `after` of the next page, or None on the last page."""

    items: list[StreamRow]
    next: int | None


class Clients(Noun):
    def list(
        self,
        *,
        name: str | None = None,
        status: Literal["active", "suspended", "removed"] | None = None,
        token_endpoint_auth_method: Literal["tls_client_auth", "private_key_jwt", "client_secret_basic"] | None = None,
        scope: Literal["eventpolling", "accounts", "payments", "fundsconfirmations", "ssf.read", "ssf.manage"]
        | None = None,
        polled_before: str | None = None,
        polled_after: str | None = None,
    ) -> AsyncGenerator[ClientView, None]:
        """List clients: all pages."""
        return self.pages(
            "/admin/clients",
            {
                "name": name,
                "status": status,
                "token_endpoint_auth_method": token_endpoint_auth_method,
                "scope": scope,
                "polled_before": polled_before,
                "polled_after": polled_after,
            },
        )

    async def list_page(
        self,
        *,
        limit: int | None = None,
        after: int | None = None,
        name: str | None = None,
        status: Literal["active", "suspended", "removed"] | None = None,
        token_endpoint_auth_method: Literal["tls_client_auth", "private_key_jwt", "client_secret_basic"] | None = None,
        scope: Literal["eventpolling", "accounts", "payments", "fundsconfirmations", "ssf.read", "ssf.manage"]
        | None = None,
        polled_before: str | None = None,
        polled_after: str | None = None,
    ) -> ClientViewPage:
        """List clients: one page."""
        found: ClientViewPage = await self.call(
            "GET",
            "/admin/clients",
            query={
                "limit": limit,
                "after": after,
                "name": name,
                "status": status,
                "token_endpoint_auth_method": token_endpoint_auth_method,
                "scope": scope,
                "polled_before": polled_before,
                "polled_after": polled_after,
            },
        )
        return found

    async def get(self, client_id: str) -> ClientView:
        """Show a client."""
        found: ClientView = await self.call("GET", f"/admin/clients/{self.quoted(client_id)}")
        return found

    async def create(
        self,
        *,
        name: str,
        token_endpoint_auth_method: Literal["client_secret_basic", "private_key_jwt", "tls_client_auth"],
        client_id: str | UnsetType | None = UNSET,
        jwks: Mapping[str, Any] | UnsetType | None = UNSET,
        jwks_uri: str | UnsetType | None = UNSET,
        tls_client_auth_subject_dn: str | UnsetType | None = UNSET,
        set_signing_alg: Literal["ES256", "EdDSA", "PS256", "RS256"] | UnsetType | None = UNSET,
        scope: str | UnsetType = UNSET,
    ) -> RegisteredClientView:
        """Register a client."""
        found: RegisteredClientView = await self.call(
            "POST",
            "/admin/clients",
            body=as_body(
                name=name,
                token_endpoint_auth_method=token_endpoint_auth_method,
                client_id=client_id,
                jwks=jwks,
                jwks_uri=jwks_uri,
                tls_client_auth_subject_dn=tls_client_auth_subject_dn,
                set_signing_alg=set_signing_alg,
                scope=scope,
            ),
        )
        return found

    async def counts(
        self,
        *,
        name: str | None = None,
        status: Literal["active", "suspended", "removed"] | None = None,
        token_endpoint_auth_method: Literal["tls_client_auth", "private_key_jwt", "client_secret_basic"] | None = None,
        scope: Literal["eventpolling", "accounts", "payments", "fundsconfirmations", "ssf.read", "ssf.manage"]
        | None = None,
        polled_before: str | None = None,
        polled_after: str | None = None,
    ) -> StateCounts:
        """Count clients by status."""
        found: StateCounts = await self.call(
            "GET",
            "/admin/clients/counts",
            query={
                "name": name,
                "status": status,
                "token_endpoint_auth_method": token_endpoint_auth_method,
                "scope": scope,
                "polled_before": polled_before,
                "polled_after": polled_after,
            },
        )
        return found

    def export(
        self,
        *,
        name: str | None = None,
        status: Literal["active", "suspended", "removed"] | None = None,
        token_endpoint_auth_method: Literal["tls_client_auth", "private_key_jwt", "client_secret_basic"] | None = None,
        scope: Literal["eventpolling", "accounts", "payments", "fundsconfirmations", "ssf.read", "ssf.manage"]
        | None = None,
        polled_before: str | None = None,
        polled_after: str | None = None,
        format: Literal["csv", "json"] | None = None,
    ) -> AsyncGenerator[bytes, None]:
        """Export clients as a file."""
        return self.stream(
            "/admin/clients/export",
            {
                "name": name,
                "status": status,
                "token_endpoint_auth_method": token_endpoint_auth_method,
                "scope": scope,
                "polled_before": polled_before,
                "polled_after": polled_after,
                "format": format,
            },
        )

    async def delete(self, client_id: str) -> ClientView:
        """Remove a client."""
        found: ClientView = await self.call("DELETE", f"/admin/clients/{self.quoted(client_id)}")
        return found

    async def why(self, client_id: str) -> ClientExplanation:
        """Explain why a client has not got its events."""
        found: ClientExplanation = await self.call("GET", f"/admin/clients/{self.quoted(client_id)}/why")
        return found

    async def tag(self, client_id: str, tag: str) -> TagList:
        """Add a tag to the client."""
        found: TagList = await self.call("PUT", f"/admin/clients/{self.quoted(client_id)}/tags/{self.quoted(tag)}")
        return found

    async def untag(self, client_id: str, tag: str) -> TagList:
        """Remove a tag from the client."""
        found: TagList = await self.call("DELETE", f"/admin/clients/{self.quoted(client_id)}/tags/{self.quoted(tag)}")
        return found

    async def rotate(
        self,
        client_id: str,
        *,
        jwks: Mapping[str, Any] | UnsetType | None = UNSET,
        jwks_uri: str | UnsetType | None = UNSET,
        tls_client_auth_subject_dn: str | UnsetType | None = UNSET,
    ) -> RegisteredClientView:
        """Replace a client's secret, keys or subject."""
        found: RegisteredClientView = await self.call(
            "POST",
            f"/admin/clients/{self.quoted(client_id)}/rotate",
            body=as_body(jwks=jwks, jwks_uri=jwks_uri, tls_client_auth_subject_dn=tls_client_auth_subject_dn),
        )
        return found

    async def suspend(self, client_id: str) -> ClientView:
        """Suspend a client."""
        found: ClientView = await self.call("POST", f"/admin/clients/{self.quoted(client_id)}/suspend")
        return found

    async def resume(self, client_id: str) -> ClientView:
        """Resume a suspended client."""
        found: ClientView = await self.call("POST", f"/admin/clients/{self.quoted(client_id)}/resume")
        return found

    async def refusals(self, client_id: str) -> RefusalSummaryList:
        """Why the token endpoint refused a client."""
        found: RefusalSummaryList = await self.call("GET", f"/admin/clients/{self.quoted(client_id)}/refusals")
        return found

    def audit(self, *, client_id: str | None = None) -> AsyncGenerator[AuditedActionView, None]:
        """List what operators did, newest first: all pages."""
        return self.pages("/admin/events/audit", {"client_id": client_id})

    async def audit_page(
        self, *, limit: int | None = None, after: int | None = None, client_id: str | None = None
    ) -> AuditedActionViewPage:
        """List what operators did, newest first: one page."""
        found: AuditedActionViewPage = await self.call(
            "GET", "/admin/events/audit", query={"limit": limit, "after": after, "client_id": client_id}
        )
        return found


class BlockingClients(BlockingNoun[Clients]):
    list = blocking_iterator(Clients.list)
    list_page = blocking(Clients.list_page)
    get = blocking(Clients.get)
    create = blocking(Clients.create)
    counts = blocking(Clients.counts)
    export = blocking_iterator(Clients.export)
    delete = blocking(Clients.delete)
    why = blocking(Clients.why)
    tag = blocking(Clients.tag)
    untag = blocking(Clients.untag)
    rotate = blocking(Clients.rotate)
    suspend = blocking(Clients.suspend)
    resume = blocking(Clients.resume)
    refusals = blocking(Clients.refusals)
    audit = blocking_iterator(Clients.audit)
    audit_page = blocking(Clients.audit_page)


class Events(Noun):
    def list(
        self,
        *,
        client_id: str | None = None,
        status: Literal["unsigned", "ready", "acknowledged", "errored", "dropped"] | None = None,
        txn: str | None = None,
        profile: Literal["open-banking", "shared-signals"] | None = None,
        err: str | None = None,
        since: str | None = None,
        until: str | None = None,
    ) -> AsyncGenerator[EventView, None]:
        """List events: all pages."""
        return self.pages(
            "/admin/events",
            {
                "client_id": client_id,
                "status": status,
                "txn": txn,
                "profile": profile,
                "err": err,
                "since": since,
                "until": until,
            },
        )

    async def list_page(
        self,
        *,
        limit: int | None = None,
        after: int | None = None,
        client_id: str | None = None,
        status: Literal["unsigned", "ready", "acknowledged", "errored", "dropped"] | None = None,
        txn: str | None = None,
        profile: Literal["open-banking", "shared-signals"] | None = None,
        err: str | None = None,
        since: str | None = None,
        until: str | None = None,
    ) -> EventViewPage:
        """List events: one page."""
        found: EventViewPage = await self.call(
            "GET",
            "/admin/events",
            query={
                "limit": limit,
                "after": after,
                "client_id": client_id,
                "status": status,
                "txn": txn,
                "profile": profile,
                "err": err,
                "since": since,
                "until": until,
            },
        )
        return found

    async def get(self, jti: str) -> EventDetail:
        """Show an event, its token claims and its deliveries."""
        found: EventDetail = await self.call("GET", f"/admin/events/{self.quoted(jti)}")
        return found

    async def publish(
        self,
        *,
        events: Mapping[str, Any],
        client_id: str | UnsetType | None = UNSET,
        all_subscribers: bool | UnsetType = UNSET,
        sub: str | UnsetType | None = UNSET,
        sub_id: Mapping[str, Any] | UnsetType | None = UNSET,
        txn: str | UnsetType | None = UNSET,
        toe: int | UnsetType | None = UNSET,
        idempotency_key: str | None = None,
    ) -> PublishResponse:
        """Publish an event."""
        found: PublishResponse = await self.call(
            "POST",
            "/admin/events",
            body=as_body(
                events=events,
                client_id=client_id,
                all_subscribers=all_subscribers,
                sub=sub,
                sub_id=sub_id,
                txn=txn,
                toe=toe,
            ),
            idempotency_key=idempotency_key,
        )
        return found

    async def counts(
        self,
        *,
        client_id: str | None = None,
        status: Literal["unsigned", "ready", "acknowledged", "errored", "dropped"] | None = None,
        txn: str | None = None,
        profile: Literal["open-banking", "shared-signals"] | None = None,
        err: str | None = None,
        since: str | None = None,
        until: str | None = None,
    ) -> StateCounts:
        """Count events by status."""
        found: StateCounts = await self.call(
            "GET",
            "/admin/events/counts",
            query={
                "client_id": client_id,
                "status": status,
                "txn": txn,
                "profile": profile,
                "err": err,
                "since": since,
                "until": until,
            },
        )
        return found

    def export(
        self,
        *,
        client_id: str | None = None,
        status: Literal["unsigned", "ready", "acknowledged", "errored", "dropped"] | None = None,
        txn: str | None = None,
        profile: Literal["open-banking", "shared-signals"] | None = None,
        err: str | None = None,
        since: str | None = None,
        until: str | None = None,
        format: Literal["csv", "json"] | None = None,
    ) -> AsyncGenerator[bytes, None]:
        """Export events as a file, newest first."""
        return self.stream(
            "/admin/events/export",
            {
                "client_id": client_id,
                "status": status,
                "txn": txn,
                "profile": profile,
                "err": err,
                "since": since,
                "until": until,
                "format": format,
            },
        )

    async def bulk(
        self,
        *,
        action: Literal["drop", "redeliver", "release"],
        all: bool | UnsetType = UNSET,
        params: Any | UnsetType = UNSET,
        dry_run: bool | UnsetType = UNSET,
        rate_per_second: int | UnsetType | None = UNSET,
        filter: EventBulkFilter | UnsetType = UNSET,
        idempotency_key: str | None = None,
    ) -> JobView:
        """Act on all events that match."""
        found: JobView = await self.call(
            "POST",
            "/admin/events/bulk",
            body=as_body(
                all=all, params=params, dry_run=dry_run, rate_per_second=rate_per_second, action=action, filter=filter
            ),
            idempotency_key=idempotency_key,
        )
        return found

    async def release(self, jti: str) -> EventDetail:
        """Release an errored event."""
        found: EventDetail = await self.call("POST", f"/admin/events/{self.quoted(jti)}/release")
        return found

    async def drop(self, jti: str) -> EventDetail:
        """Drop an errored event."""
        found: EventDetail = await self.call("POST", f"/admin/events/{self.quoted(jti)}/drop")
        return found

    def statuses(self) -> AsyncGenerator[ClientStatus, None]:
        """List the status of each client: all pages."""
        return self.pages("/admin/events/clients", {})

    async def statuses_page(self, *, limit: int | None = None, after: int | None = None) -> ClientStatusPage:
        """List the status of each client: one page."""
        found: ClientStatusPage = await self.call(
            "GET", "/admin/events/clients", query={"limit": limit, "after": after}
        )
        return found

    async def status(self, client_id: str) -> ClientStatusDetail:
        """Show the status of a client, with error reasons."""
        found: ClientStatusDetail = await self.call("GET", f"/admin/events/clients/{self.quoted(client_id)}")
        return found

    async def release_all(self, client_id: str) -> ResolvedCount:
        """Release all errored events of a client."""
        found: ResolvedCount = await self.call("POST", f"/admin/events/clients/{self.quoted(client_id)}/release")
        return found

    async def drop_all(self, client_id: str) -> ResolvedCount:
        """Drop all errored events of a client."""
        found: ResolvedCount = await self.call("POST", f"/admin/events/clients/{self.quoted(client_id)}/drop")
        return found


class BlockingEvents(BlockingNoun[Events]):
    list = blocking_iterator(Events.list)
    list_page = blocking(Events.list_page)
    get = blocking(Events.get)
    publish = blocking(Events.publish)
    counts = blocking(Events.counts)
    export = blocking_iterator(Events.export)
    bulk = blocking(Events.bulk)
    release = blocking(Events.release)
    drop = blocking(Events.drop)
    statuses = blocking_iterator(Events.statuses)
    statuses_page = blocking(Events.statuses_page)
    status = blocking(Events.status)
    release_all = blocking(Events.release_all)
    drop_all = blocking(Events.drop_all)


class EventKeys(Noun):
    async def list(self) -> EventKeyList:
        """List the keys that sign event tokens."""
        found: EventKeyList = await self.call("GET", "/admin/events/keys")
        return found

    async def rotate(
        self, *, alg: Literal["PS256", "ES256", "EdDSA", "RS256"] | UnsetType | None = UNSET
    ) -> RotatedEventKey:
        """Rotate the signing key."""
        found: RotatedEventKey = await self.call("POST", "/admin/events/keys/rotate", body=as_body(alg=alg))
        return found

    async def withdraw(self, kid: str) -> WithdrawnEventKey:
        """Withdraw a leaked key."""
        found: WithdrawnEventKey = await self.call("POST", f"/admin/events/keys/{self.quoted(kid)}/withdraw")
        return found


class BlockingEventKeys(BlockingNoun[EventKeys]):
    list = blocking(EventKeys.list)
    rotate = blocking(EventKeys.rotate)
    withdraw = blocking(EventKeys.withdraw)


class Streams(Noun):
    def list(self) -> AsyncGenerator[StreamRow, None]:
        """List streams: all pages."""
        return self.pages("/admin/streams", {})

    async def list_page(self, *, limit: int | None = None, after: int | None = None) -> StreamRowPage:
        """List streams: one page."""
        found: StreamRowPage = await self.call("GET", "/admin/streams", query={"limit": limit, "after": after})
        return found

    async def set_status(
        self,
        stream_id: str,
        *,
        status: Literal["disabled", "enabled", "paused"],
        reason: str | UnsetType | None = UNSET,
    ) -> StreamRow:
        """Change the status of a stream."""
        found: StreamRow = await self.call(
            "POST", f"/admin/streams/{self.quoted(stream_id)}/status", body=as_body(status=status, reason=reason)
        )
        return found


class BlockingStreams(BlockingNoun[Streams]):
    list = blocking_iterator(Streams.list)
    list_page = blocking(Streams.list_page)
    set_status = blocking(Streams.set_status)
