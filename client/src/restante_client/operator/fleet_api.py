"""Operator routes: devices, configs, signals, outbox, groups, jobs, rollouts, poll boost.

Generated from the server's routes by `scripts/generate-operator-client`; do not edit.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping, Sequence
from typing import Any, Literal, TypedDict

from msgspec import UNSET, UnsetType

from restante_client.operator.core import BlockingNoun, Noun, as_body
from restante_client.runtime import blocking, blocking_iterator


class DeviceRow(TypedDict, total=False):
    """A device in a list of the fleet; times are UTC. `config_*`: versions of its install config: the current one,
    the one that it fetched last, and the newest that it reported as applied or as failed.
    """

    id: int
    user_id: int
    device_public_id: str
    name: str
    status: Literal["active", "revoked"]
    platform: str
    model: str
    app_version: str
    agent_version: str | None
    tags: list[str]
    created_at: str
    revoked_at: str | None
    last_seen_at: str | None
    is_overdue: bool
    overdue_at: str | None
    config_state: Literal["applied", "behind", "failed", "fetched", "none"]
    config_wanted: int | None
    config_fetched: int | None
    config_applied: int | None
    config_failed: int | None
    certificate_expires_at: str | None


class FleetPage(TypedDict, total=False):
    """`next` is the `after` of the next page, or None on the last page. A page with a next one may have fewer items
    than asked for, or none.
    """

    items: list[DeviceRow]
    next: str | None


class Device(TypedDict, total=False):
    """A device in the wire format."""

    id: int
    user_id: int
    device_public_id: str
    platform: str
    model: str
    app_version: str
    name: str
    status: Literal["active", "revoked"]
    device_keyfp_b64: str
    created_at: str
    updated_at: str
    last_seen_at: str | None
    revoked_at: str | None
    agent_version: str | None


class DevicePage(TypedDict, total=False):
    """`next` is the `after` of the next page, or None on the last page."""

    items: list[Device]
    next: int | None


class DeviceDetail(TypedDict, total=False):
    """A device with its tags and what it has got."""

    id: int
    user_id: int
    device_public_id: str
    platform: str
    model: str
    app_version: str
    name: str
    status: Literal["active", "revoked"]
    device_keyfp_b64: str
    created_at: str
    updated_at: str
    last_seen_at: str | None
    revoked_at: str | None
    agent_version: str | None
    tags: list[str]
    delivery: Delivery


class Delivery(TypedDict, total=False):
    """`cursor`: the position that the device has confirmed; `newest_cursor`: the end of its log. `lag_signals`: how
    many published signals it has not confirmed; `lag_seconds`: how long the oldest of these is published.
    `queued`: how many signals are not published yet, `undeliverable`: how many cannot be. Times are UTC.
    """

    cursor: str | None
    newest_cursor: str
    lag_signals: int
    lag_seconds: float
    queued: int
    undeliverable: int
    last_poll_at: str | None
    is_overdue: bool
    overdue_at: str | None
    last_report_at: str | None
    config: ConfigDelivery


class ConfigDelivery(TypedDict, total=False):
    """Versions of the install config: the current one (`wanted`), the one that the device fetched last, and the
    newest that it reported as applied or as failed; `failure`: what it said about that. Times are UTC.
    """

    state: Literal["applied", "behind", "failed", "fetched", "none"]
    wanted: int | None
    wanted_at: str | None
    fetched: int | None
    fetched_at: str | None
    applied: int | None
    applied_at: str | None
    failed: int | None
    failed_at: str | None
    failure: str | None


class RegistrationResponse(TypedDict, total=False):
    device: Device
    session: TokenPair


class TokenPair(TypedDict, total=False):
    """A device's tokens in the wire format."""

    access_token: str
    refresh_token: str
    token_type: str
    expires_in: int


class Counts(TypedDict, total=False):
    """How many devices match the filter, and how many of these have each status and each state of their config; and
    when they were counted.
    """

    total: Count
    status: dict[str, Any]
    config: dict[str, Any]
    overdue: Count
    counted_at: str


class Count(TypedDict, total=False):
    """How many devices match; if `is_exact` is false, at least as many."""

    value: int
    is_exact: bool


class SignalLine(TypedDict, total=False):
    """A signal and how far it has come; times are UTC. `received_at`: when the device confirmed it, to about half a
    minute. `failure`: why it could not be published, or what the device said about it.
    """

    n: int | None
    cursor: str | None
    type: str
    ref: Any
    state: Literal["applied", "failed", "published", "queued", "received", "undeliverable"]
    queued_at: str
    published_at: str | None
    received_at: str | None
    applied_at: str | None
    failed_at: str | None
    failure: str | None


class SignalLinePage(TypedDict, total=False):
    """`next` is the `after` of the next page, or None on the last page."""

    items: list[SignalLine]
    next: int | None


class Report(TypedDict, total=False):
    """A report of a device's agent; `at` is UTC. `events`: the newest ones, as the agent sent them."""

    n: int
    at: str
    events: Any


class ReportPage(TypedDict, total=False):
    """`next` is the `after` of the next page, or None on the last page."""

    items: list[Report]
    next: int | None


class DeviceExplanation(TypedDict, total=False):
    """`until`: when the wait should end, if known. `failure`: the reason of a failure, as the server or the device
    recorded it. All times are UTC.
    """

    device_id: int
    status: Literal["active", "revoked"]
    waiting_for: Literal[
        "certificate_wrap",
        "config_failed",
        "config_fetch",
        "dispatcher",
        "first_poll",
        "nothing",
        "poll",
        "poll_overdue",
        "report",
        "revoked",
        "undeliverable_signal",
    ]
    sentence: str
    until: str | None
    failure: str | None
    delivery: Delivery


class TagList(TypedDict, total=False):
    """All tags of a resource, in alphabetical order."""

    tags: list[str]


class DeviceFilter(TypedDict, total=False):
    """Devices for which every given field holds. A filter without fields matches every device. `name`: the beginning
    of the name, in its own case. `tag`: one tag, or several separated by commas, all of which the device must
    have. `config_version`: see CONFIG_STATES; `behind`: not fetched, or reported as failed; `current`: fetched or
    applied; a number: the version that the device fetched or applied last. `seen_before`: no poll since that
    time, or none at all. `overdue`: see decision 0141. `certificate_expires_before`: a certificate of the device
    ends before that time. `group`: the name or the id of a group.
    """

    name: str | None
    tag: str | None
    status: Literal["active", "revoked"] | None
    platform: str | None
    agent_version: str | None
    config_version: int | str | None
    seen_before: str | None
    seen_after: str | None
    overdue: bool | None
    certificate_expires_before: str | None
    user_id: int | None
    group: str | None


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


class InstallConfigView(TypedDict, total=False):
    """The config for operators."""

    id: int
    user_device_id: int
    version: int
    installs: Any
    installs_json: str
    installs_hash: str | None
    after_update_script: str | None
    updated_by: str | None
    created_at: str
    updated_at: str


class ConfigVersion(TypedDict, total=False):
    """One version in the history, without its items: a page of items could be very large."""

    version: int
    installs_hash: str | None
    change_note: str | None
    changed_by: str
    created_at: str


class ConfigVersionPage(TypedDict, total=False):
    """`next` is the `after` of the next page, or None on the last page."""

    items: list[ConfigVersion]
    next: int | None


class ConfigVersionDetail(TypedDict, total=False):
    version: int
    installs_hash: str | None
    change_note: str | None
    changed_by: str
    created_at: str
    installs: Any
    after_update_script: str | None


class SentSignal(TypedDict, total=False):
    device_id: int
    type: str
    ts_ms: int


class OutboxRow(TypedDict, total=False):
    id: int
    device_id: int
    event_kind: str
    payload: str
    status: str
    attempts: int
    next_attempt_at: str | None
    claimed_by: str | None
    claimed_at: str | None
    lock_expires_at: str | None
    failure_reason: str | None
    created_at: str
    delivered_at: str | None
    source: str


class OutboxRowPage(TypedDict, total=False):
    """`next` is the `after` of the next page, or None on the last page."""

    items: list[OutboxRow]
    next: int | None


class StateCounts(TypedDict, total=False):
    """How many items match the filter, and how many of these are in each state; and when they were counted."""

    total: ItemCount
    states: dict[str, Any]
    counted_at: str


class ItemCount(TypedDict, total=False):
    """How many items match; if `is_exact` is false, at least as many."""

    value: int
    is_exact: bool


class RetryResult(TypedDict, total=False):
    retried: int


class OutboxList(TypedDict, total=False):
    items: list[OutboxView]


class OutboxView(TypedDict, total=False):
    """An outbox: the server's own, or one in an external database."""

    source: str
    reachable: bool
    pending: int | None
    failed: int | None
    oldest_pending_ms: int | None
    problem: str | None


class OutboxFilter(TypedDict, total=False):
    """FAILED rows for one device, of one type of signal, with a text in their failure, or of a time."""

    device_id: int | None
    event_kind: str | None
    failure_contains: str | None
    created_after: str | None
    created_before: str | None


class Group(TypedDict, total=False):
    """A saved filter. `user_id` None: a group of the whole fleet. Times are UTC."""

    id: int
    name: str
    user_id: int | None
    filter: DeviceFilter
    created_at: str
    updated_at: str
    updated_by: str


class GroupPage(TypedDict, total=False):
    """`next` is the `after` of the next page, or None on the last page."""

    items: list[Group]
    next: int | None


class JobViewPage(TypedDict, total=False):
    """`next` is the `after` of the next page, or None on the last page."""

    items: list[JobView]
    next: int | None


class JobItemView(TypedDict, total=False):
    """The result of one item. `ref`: its public name. `result`: the name of what the action made. `outcome`, for
    actions that only start something: the state of that now, for example of the command.
    """

    item: int
    state: str
    ref: str | None
    result: str | None
    error: str | None
    at: str
    outcome: str | None


class JobItemViewPage(TypedDict, total=False):
    """`next` is the `after` of the next page, or None on the last page."""

    items: list[JobItemView]
    next: int | None


class RolloutView(TypedDict, total=False):
    """A rollout and its waves. Lists do not count what was reported: `succeeded`, `failed` and `waiting` are null."""

    rollout_id: str
    name: str
    target: str
    action: str
    filter: Any
    params: Any
    state: str
    reason: str | None
    total: int
    succeeded: int | None
    failed: int | None
    waiting: int | None
    wave: int
    waves: list[WaveView]
    success_percent: int
    error_percent: int
    min_wave_seconds: int
    max_wave_seconds: int
    rate_per_second: int | None
    poll_boost: bool
    created_by: str
    created_at: str
    approved_by: str | None
    finished_at: str | None
    roll_back_job_id: str | None


class WaveView(TypedDict, total=False):
    """A wave. `succeeded`, `failed` and `waiting` count its items by what they have reported; null in lists."""

    number: int
    rule: Wave
    state: Literal["done", "planned", "running"]
    job_id: str | None
    total: int | None
    handed_out: int
    succeeded: int | None
    failed: int | None
    waiting: int | None
    started_at: str | None


class Wave(TypedDict, total=False):
    """One of these fields says which items are in the wave."""

    percent: float | None
    count: int | None
    group: str | None
    filter: dict[str, Any] | None


class RolloutViewPage(TypedDict, total=False):
    """`next` is the `after` of the next page, or None on the last page."""

    items: list[RolloutView]
    next: int | None


class Laggard(TypedDict, total=False):
    """An item of a rollout that has not reported success. `detail`: what is known about it."""

    item: int
    name: str | None
    wave: int
    state: Literal["failed", "waiting"]
    detail: str | None


class LaggardPage(TypedDict, total=False):
    """`next` is the `after` of the next page, or None on the last page."""

    items: list[Laggard]
    next: int | None


class PollBoostView(TypedDict, total=False):
    active: bool
    until: str | None
    interval_seconds: int | None


class Devices(Noun):
    def list(
        self,
        *,
        name: str | None = None,
        tag: str | None = None,
        status: Literal["active", "revoked"] | None = None,
        platform: str | None = None,
        agent_version: str | None = None,
        config_version: str | None = None,
        seen_before: str | None = None,
        seen_after: str | None = None,
        overdue: bool | None = None,
        certificate_expires_before: str | None = None,
        user_id: int | None = None,
        group: str | None = None,
    ) -> AsyncGenerator[DeviceRow, None]:
        """List devices: all pages."""
        return self.pages(
            "/apiv1/devices",
            {
                "name": name,
                "tag": tag,
                "status": status,
                "platform": platform,
                "agent_version": agent_version,
                "config_version": config_version,
                "seen_before": seen_before,
                "seen_after": seen_after,
                "overdue": overdue,
                "certificate_expires_before": certificate_expires_before,
                "user_id": user_id,
                "group": group,
            },
            is_wrapped=True,
        )

    async def list_page(
        self,
        *,
        name: str | None = None,
        tag: str | None = None,
        status: Literal["active", "revoked"] | None = None,
        platform: str | None = None,
        agent_version: str | None = None,
        config_version: str | None = None,
        seen_before: str | None = None,
        seen_after: str | None = None,
        overdue: bool | None = None,
        certificate_expires_before: str | None = None,
        user_id: int | None = None,
        group: str | None = None,
        limit: int | None = None,
        after: str | None = None,
    ) -> FleetPage:
        """List devices: one page."""
        found: FleetPage = await self.call(
            "GET",
            "/apiv1/devices",
            query={
                "name": name,
                "tag": tag,
                "status": status,
                "platform": platform,
                "agent_version": agent_version,
                "config_version": config_version,
                "seen_before": seen_before,
                "seen_after": seen_after,
                "overdue": overdue,
                "certificate_expires_before": certificate_expires_before,
                "user_id": user_id,
                "group": group,
                "limit": limit,
                "after": after,
            },
            is_wrapped=True,
        )
        return found

    async def get(self, device_id: int) -> Device:
        """Show a device of any user."""
        found: Device = await self.call("GET", f"/apiv1/devices/{self.quoted(device_id)}", is_wrapped=True)
        return found

    def list_own(self) -> AsyncGenerator[Device, None]:
        """List the caller's devices: all pages."""
        return self.pages("/apiv1/me/devices", {"page": "object"}, is_wrapped=True)

    async def list_own_page(self, *, limit: int | None = None, after: int | None = None) -> DevicePage:
        """List the caller's devices: one page."""
        found: DevicePage = await self.call(
            "GET", "/apiv1/me/devices", query={"limit": limit, "after": after, "page": "object"}, is_wrapped=True
        )
        return found

    def list_of_user(self, user_id: int) -> AsyncGenerator[Device, None]:
        """List the user's devices: all pages."""
        return self.pages(f"/apiv1/users/{self.quoted(user_id)}/devices", {"page": "object"}, is_wrapped=True)

    async def list_of_user_page(
        self, user_id: int, *, limit: int | None = None, after: int | None = None
    ) -> DevicePage:
        """List the user's devices: one page."""
        found: DevicePage = await self.call(
            "GET",
            f"/apiv1/users/{self.quoted(user_id)}/devices",
            query={"limit": limit, "after": after, "page": "object"},
            is_wrapped=True,
        )
        return found

    async def get_of_user(self, user_id: int, device_id: int) -> DeviceDetail:
        """Show a device."""
        found: DeviceDetail = await self.call(
            "GET", f"/apiv1/users/{self.quoted(user_id)}/devices/{self.quoted(device_id)}", is_wrapped=True
        )
        return found

    async def register(
        self,
        user_id: int,
        *,
        device_public_id: str,
        dev_pk: str,
        platform: str | UnsetType | None = UNSET,
        model: str | UnsetType | None = UNSET,
        app_version: str | UnsetType | None = UNSET,
        name: str | UnsetType | None = UNSET,
        ip: str | UnsetType | None = UNSET,
        user_agent: str | UnsetType | None = UNSET,
        registration_code: str | UnsetType | None = UNSET,
        refresh_token: str | UnsetType | None = UNSET,
    ) -> RegistrationResponse:
        """Register a device for a user."""
        found: RegistrationResponse = await self.call(
            "POST",
            f"/apiv1/users/{self.quoted(user_id)}/devices",
            body=as_body(
                device_public_id=device_public_id,
                dev_pk=dev_pk,
                platform=platform,
                model=model,
                app_version=app_version,
                name=name,
                ip=ip,
                user_agent=user_agent,
                registration_code=registration_code,
                refresh_token=refresh_token,
            ),
            is_wrapped=True,
        )
        return found

    async def revoke(self, user_id: int, device_id: int) -> Device:
        """Revoke the device."""
        found: Device = await self.call(
            "POST", f"/apiv1/users/{self.quoted(user_id)}/devices/{self.quoted(device_id)}/revoke", is_wrapped=True
        )
        return found

    async def counts(
        self,
        *,
        name: str | None = None,
        tag: str | None = None,
        status: Literal["active", "revoked"] | None = None,
        platform: str | None = None,
        agent_version: str | None = None,
        config_version: str | None = None,
        seen_before: str | None = None,
        seen_after: str | None = None,
        overdue: bool | None = None,
        certificate_expires_before: str | None = None,
        user_id: int | None = None,
        group: str | None = None,
    ) -> Counts:
        """Count devices."""
        found: Counts = await self.call(
            "GET",
            "/apiv1/devices/counts",
            query={
                "name": name,
                "tag": tag,
                "status": status,
                "platform": platform,
                "agent_version": agent_version,
                "config_version": config_version,
                "seen_before": seen_before,
                "seen_after": seen_after,
                "overdue": overdue,
                "certificate_expires_before": certificate_expires_before,
                "user_id": user_id,
                "group": group,
            },
            is_wrapped=True,
        )
        return found

    def export(
        self,
        *,
        name: str | None = None,
        tag: str | None = None,
        status: Literal["active", "revoked"] | None = None,
        platform: str | None = None,
        agent_version: str | None = None,
        config_version: str | None = None,
        seen_before: str | None = None,
        seen_after: str | None = None,
        overdue: bool | None = None,
        certificate_expires_before: str | None = None,
        user_id: int | None = None,
        group: str | None = None,
        format: Literal["csv", "json"] | None = None,
    ) -> AsyncGenerator[bytes, None]:
        """Export devices as a file."""
        return self.stream(
            "/apiv1/devices/export",
            {
                "name": name,
                "tag": tag,
                "status": status,
                "platform": platform,
                "agent_version": agent_version,
                "config_version": config_version,
                "seen_before": seen_before,
                "seen_after": seen_after,
                "overdue": overdue,
                "certificate_expires_before": certificate_expires_before,
                "user_id": user_id,
                "group": group,
                "format": format,
            },
        )

    def signals(self, user_id: int, device_id: int) -> AsyncGenerator[SignalLine, None]:
        """List the device's signals and their state: all pages."""
        return self.pages(
            f"/apiv1/users/{self.quoted(user_id)}/devices/{self.quoted(device_id)}/signals", {}, is_wrapped=True
        )

    async def signals_page(
        self, user_id: int, device_id: int, *, limit: int | None = None, after: int | None = None
    ) -> SignalLinePage:
        """List the device's signals and their state: one page."""
        found: SignalLinePage = await self.call(
            "GET",
            f"/apiv1/users/{self.quoted(user_id)}/devices/{self.quoted(device_id)}/signals",
            query={"limit": limit, "after": after},
            is_wrapped=True,
        )
        return found

    def reports(self, user_id: int, device_id: int) -> AsyncGenerator[Report, None]:
        """List the device's last reports: all pages."""
        return self.pages(
            f"/apiv1/users/{self.quoted(user_id)}/devices/{self.quoted(device_id)}/reports", {}, is_wrapped=True
        )

    async def reports_page(
        self, user_id: int, device_id: int, *, limit: int | None = None, after: int | None = None
    ) -> ReportPage:
        """List the device's last reports: one page."""
        found: ReportPage = await self.call(
            "GET",
            f"/apiv1/users/{self.quoted(user_id)}/devices/{self.quoted(device_id)}/reports",
            query={"limit": limit, "after": after},
            is_wrapped=True,
        )
        return found

    async def why(self, user_id: int, device_id: int) -> DeviceExplanation:
        """Explain why a device has not got something."""
        found: DeviceExplanation = await self.call(
            "GET", f"/apiv1/users/{self.quoted(user_id)}/devices/{self.quoted(device_id)}/why", is_wrapped=True
        )
        return found

    async def tag(self, user_id: int, device_id: int, tag: str) -> TagList:
        """Add a tag to the device."""
        found: TagList = await self.call(
            "PUT",
            f"/apiv1/users/{self.quoted(user_id)}/devices/{self.quoted(device_id)}/tags/{self.quoted(tag)}",
            is_wrapped=True,
        )
        return found

    async def untag(self, user_id: int, device_id: int, tag: str) -> TagList:
        """Remove a tag from the device."""
        found: TagList = await self.call(
            "DELETE",
            f"/apiv1/users/{self.quoted(user_id)}/devices/{self.quoted(device_id)}/tags/{self.quoted(tag)}",
            is_wrapped=True,
        )
        return found

    async def bulk(
        self,
        *,
        action: Literal[
            "assign_ca",
            "assign_certificate",
            "patch_config",
            "put_config",
            "renew_certificates",
            "revoke",
            "send_signal",
        ],
        all: bool | UnsetType = UNSET,
        params: Any | UnsetType = UNSET,
        dry_run: bool | UnsetType = UNSET,
        rate_per_second: int | UnsetType | None = UNSET,
        filter: DeviceFilter | UnsetType = UNSET,
        idempotency_key: str | None = None,
    ) -> JobView:
        """Act on all devices that match."""
        found: JobView = await self.call(
            "POST",
            "/apiv1/devices/bulk",
            body=as_body(
                all=all, params=params, dry_run=dry_run, rate_per_second=rate_per_second, action=action, filter=filter
            ),
            idempotency_key=idempotency_key,
            is_wrapped=True,
        )
        return found


class BlockingDevices(BlockingNoun[Devices]):
    list = blocking_iterator(Devices.list)
    list_page = blocking(Devices.list_page)
    get = blocking(Devices.get)
    list_own = blocking_iterator(Devices.list_own)
    list_own_page = blocking(Devices.list_own_page)
    list_of_user = blocking_iterator(Devices.list_of_user)
    list_of_user_page = blocking(Devices.list_of_user_page)
    get_of_user = blocking(Devices.get_of_user)
    register = blocking(Devices.register)
    revoke = blocking(Devices.revoke)
    counts = blocking(Devices.counts)
    export = blocking_iterator(Devices.export)
    signals = blocking_iterator(Devices.signals)
    signals_page = blocking(Devices.signals_page)
    reports = blocking_iterator(Devices.reports)
    reports_page = blocking(Devices.reports_page)
    why = blocking(Devices.why)
    tag = blocking(Devices.tag)
    untag = blocking(Devices.untag)
    bulk = blocking(Devices.bulk)


class Configs(Noun):
    async def get(self, user_id: int, device_id: int) -> InstallConfigView:
        """Show the device's install config."""
        found: InstallConfigView = await self.call(
            "GET",
            f"/apiv1/users/{self.quoted(user_id)}/devices/{self.quoted(device_id)}/install-config",
            is_wrapped=True,
        )
        return found

    async def put(
        self,
        user_id: int,
        device_id: int,
        *,
        installs: Sequence[Mapping[str, Any]],
        change_note: str | UnsetType | None = UNSET,
        after_update_script: str | UnsetType | None = UNSET,
    ) -> InstallConfigView:
        """Replace the device's install config."""
        found: InstallConfigView = await self.call(
            "PUT",
            f"/apiv1/users/{self.quoted(user_id)}/devices/{self.quoted(device_id)}/install-config",
            body=as_body(installs=installs, change_note=change_note, after_update_script=after_update_script),
            is_wrapped=True,
        )
        return found

    def history(self, user_id: int, device_id: int) -> AsyncGenerator[ConfigVersion, None]:
        """List the versions, oldest first: all pages."""
        return self.pages(
            f"/apiv1/users/{self.quoted(user_id)}/devices/{self.quoted(device_id)}/install-config/history",
            {},
            is_wrapped=True,
        )

    async def history_page(
        self, user_id: int, device_id: int, *, limit: int | None = None, after: int | None = None
    ) -> ConfigVersionPage:
        """List the versions, oldest first: one page."""
        found: ConfigVersionPage = await self.call(
            "GET",
            f"/apiv1/users/{self.quoted(user_id)}/devices/{self.quoted(device_id)}/install-config/history",
            query={"limit": limit, "after": after},
            is_wrapped=True,
        )
        return found

    async def version(self, user_id: int, device_id: int, version: int) -> ConfigVersionDetail:
        """Show a version with its items."""
        found: ConfigVersionDetail = await self.call(
            "GET",
            f"/apiv1/users/{self.quoted(user_id)}/devices/{self.quoted(device_id)}/install-config/history/{self.quoted(version)}",
            is_wrapped=True,
        )
        return found

    async def restore(
        self, user_id: int, device_id: int, *, version: int, change_note: str | UnsetType | None = UNSET
    ) -> InstallConfigView:
        """Restore an old version."""
        found: InstallConfigView = await self.call(
            "POST",
            f"/apiv1/users/{self.quoted(user_id)}/devices/{self.quoted(device_id)}/install-config/restore",
            body=as_body(version=version, change_note=change_note),
            is_wrapped=True,
        )
        return found


class BlockingConfigs(BlockingNoun[Configs]):
    get = blocking(Configs.get)
    put = blocking(Configs.put)
    history = blocking_iterator(Configs.history)
    history_page = blocking(Configs.history_page)
    version = blocking(Configs.version)
    restore = blocking(Configs.restore)


class Signals(Noun):
    async def send(self, user_id: int, device_id: int, *, type: str, ref: Mapping[str, Any]) -> SentSignal:
        """Send the device a signal that the application defines."""
        found: SentSignal = await self.call(
            "POST",
            f"/apiv1/users/{self.quoted(user_id)}/devices/{self.quoted(device_id)}/signals",
            body=as_body(type=type, ref=ref),
            is_wrapped=True,
        )
        return found


class BlockingSignals(BlockingNoun[Signals]):
    send = blocking(Signals.send)


class Outbox(Noun):
    def list(
        self,
        *,
        status: Literal["PENDING", "DELIVERED", "FAILED"] | None = None,
        device_id: int | None = None,
        event_kind: str | None = None,
        since: str | None = None,
        until: str | None = None,
        source: str | None = None,
    ) -> AsyncGenerator[OutboxRow, None]:
        """List outbox rows, newest first: all pages."""
        return self.pages(
            "/apiv1/outbox",
            {
                "status": status,
                "device_id": device_id,
                "event_kind": event_kind,
                "since": since,
                "until": until,
                "source": source,
            },
            is_wrapped=True,
        )

    async def list_page(
        self,
        *,
        limit: int | None = None,
        after: int | None = None,
        status: Literal["PENDING", "DELIVERED", "FAILED"] | None = None,
        device_id: int | None = None,
        event_kind: str | None = None,
        since: str | None = None,
        until: str | None = None,
        source: str | None = None,
    ) -> OutboxRowPage:
        """List outbox rows, newest first: one page."""
        found: OutboxRowPage = await self.call(
            "GET",
            "/apiv1/outbox",
            query={
                "limit": limit,
                "after": after,
                "status": status,
                "device_id": device_id,
                "event_kind": event_kind,
                "since": since,
                "until": until,
                "source": source,
            },
            is_wrapped=True,
        )
        return found

    async def counts(
        self,
        *,
        status: Literal["PENDING", "DELIVERED", "FAILED"] | None = None,
        device_id: int | None = None,
        event_kind: str | None = None,
        since: str | None = None,
        until: str | None = None,
        source: str | None = None,
    ) -> StateCounts:
        """Count outbox rows by status."""
        found: StateCounts = await self.call(
            "GET",
            "/apiv1/outbox/counts",
            query={
                "status": status,
                "device_id": device_id,
                "event_kind": event_kind,
                "since": since,
                "until": until,
                "source": source,
            },
            is_wrapped=True,
        )
        return found

    def export(
        self,
        *,
        status: Literal["PENDING", "DELIVERED", "FAILED"] | None = None,
        device_id: int | None = None,
        event_kind: str | None = None,
        since: str | None = None,
        until: str | None = None,
        source: str | None = None,
        format: Literal["csv", "json"] | None = None,
    ) -> AsyncGenerator[bytes, None]:
        """Export outbox rows as a file, newest first."""
        return self.stream(
            "/apiv1/outbox/export",
            {
                "status": status,
                "device_id": device_id,
                "event_kind": event_kind,
                "since": since,
                "until": until,
                "source": source,
                "format": format,
            },
        )

    async def get(self, row_id: int, *, source: str | None = None) -> OutboxRow:
        """Show an outbox row."""
        found: OutboxRow = await self.call(
            "GET", f"/apiv1/outbox/{self.quoted(row_id)}", query={"source": source}, is_wrapped=True
        )
        return found

    async def retry(self, row_id: int, *, source: str | None = None) -> RetryResult:
        """Retry a FAILED row."""
        found: RetryResult = await self.call(
            "POST", f"/apiv1/outbox/{self.quoted(row_id)}/retry", query={"source": source}, is_wrapped=True
        )
        return found

    async def retry_all(self, *, source: str | None = None) -> RetryResult:
        """Retry every FAILED row."""
        found: RetryResult = await self.call("POST", "/apiv1/outbox/retry", query={"source": source}, is_wrapped=True)
        return found

    async def sources(self) -> OutboxList:
        """List the outboxes and their state."""
        found: OutboxList = await self.call("GET", "/apiv1/outboxes", is_wrapped=True)
        return found

    async def bulk(
        self,
        *,
        action: Literal["retry"],
        all: bool | UnsetType = UNSET,
        params: Any | UnsetType = UNSET,
        dry_run: bool | UnsetType = UNSET,
        rate_per_second: int | UnsetType | None = UNSET,
        filter: OutboxFilter | UnsetType = UNSET,
        idempotency_key: str | None = None,
    ) -> JobView:
        """Retry all FAILED rows that match."""
        found: JobView = await self.call(
            "POST",
            "/apiv1/outbox/bulk",
            body=as_body(
                all=all, params=params, dry_run=dry_run, rate_per_second=rate_per_second, action=action, filter=filter
            ),
            idempotency_key=idempotency_key,
            is_wrapped=True,
        )
        return found


class BlockingOutbox(BlockingNoun[Outbox]):
    list = blocking_iterator(Outbox.list)
    list_page = blocking(Outbox.list_page)
    counts = blocking(Outbox.counts)
    export = blocking_iterator(Outbox.export)
    get = blocking(Outbox.get)
    retry = blocking(Outbox.retry)
    retry_all = blocking(Outbox.retry_all)
    sources = blocking(Outbox.sources)
    bulk = blocking(Outbox.bulk)


class Groups(Noun):
    def list(self) -> AsyncGenerator[Group, None]:
        """List groups of devices: all pages."""
        return self.pages("/apiv1/groups", {}, is_wrapped=True)

    async def list_page(self, *, limit: int | None = None, after: int | None = None) -> GroupPage:
        """List groups of devices: one page."""
        found: GroupPage = await self.call(
            "GET", "/apiv1/groups", query={"limit": limit, "after": after}, is_wrapped=True
        )
        return found

    async def get(self, group_id: int) -> Group:
        """Show a group."""
        found: Group = await self.call("GET", f"/apiv1/groups/{self.quoted(group_id)}", is_wrapped=True)
        return found

    async def create(self, *, name: str, filter: DeviceFilter, user_id: int | UnsetType | None = UNSET) -> Group:
        """Save a filter as a group."""
        found: Group = await self.call(
            "POST", "/apiv1/groups", body=as_body(name=name, filter=filter, user_id=user_id), is_wrapped=True
        )
        return found

    async def replace(
        self, group_id: int, *, name: str | UnsetType | None = UNSET, filter: DeviceFilter | UnsetType | None = UNSET
    ) -> Group:
        """Change a group."""
        found: Group = await self.call(
            "PUT", f"/apiv1/groups/{self.quoted(group_id)}", body=as_body(name=name, filter=filter), is_wrapped=True
        )
        return found

    async def delete(self, group_id: int) -> None:
        """Delete a group."""
        await self.call("DELETE", f"/apiv1/groups/{self.quoted(group_id)}")


class BlockingGroups(BlockingNoun[Groups]):
    list = blocking_iterator(Groups.list)
    list_page = blocking(Groups.list_page)
    get = blocking(Groups.get)
    create = blocking(Groups.create)
    replace = blocking(Groups.replace)
    delete = blocking(Groups.delete)


class Jobs(Noun):
    def list(
        self,
        *,
        state: Literal["pending_approval", "queued", "running", "paused", "done", "aborted", "failed"] | None = None,
        target: Literal["devices", "outbox", "miners", "commands", "events", "rollout_devices", "rollout_miners"]
        | None = None,
    ) -> AsyncGenerator[JobView, None]:
        """List jobs, newest first: all pages."""
        return self.pages("/apiv1/jobs", {"state": state, "target": target}, is_wrapped=True)

    async def list_page(
        self,
        *,
        limit: int | None = None,
        after: int | None = None,
        state: Literal["pending_approval", "queued", "running", "paused", "done", "aborted", "failed"] | None = None,
        target: Literal["devices", "outbox", "miners", "commands", "events", "rollout_devices", "rollout_miners"]
        | None = None,
    ) -> JobViewPage:
        """List jobs, newest first: one page."""
        found: JobViewPage = await self.call(
            "GET",
            "/apiv1/jobs",
            query={"limit": limit, "after": after, "state": state, "target": target},
            is_wrapped=True,
        )
        return found

    async def get(self, job_id: str) -> JobView:
        """Show a job and its progress."""
        found: JobView = await self.call("GET", f"/apiv1/jobs/{self.quoted(job_id)}", is_wrapped=True)
        return found

    def items(
        self, job_id: str, *, state: Literal["done", "failed", "skipped"] | None = None
    ) -> AsyncGenerator[JobItemView, None]:
        """List the results of a job: all pages."""
        return self.pages(f"/apiv1/jobs/{self.quoted(job_id)}/items", {"state": state}, is_wrapped=True)

    async def items_page(
        self,
        job_id: str,
        *,
        limit: int | None = None,
        after: int | None = None,
        state: Literal["done", "failed", "skipped"] | None = None,
    ) -> JobItemViewPage:
        """List the results of a job: one page."""
        found: JobItemViewPage = await self.call(
            "GET",
            f"/apiv1/jobs/{self.quoted(job_id)}/items",
            query={"limit": limit, "after": after, "state": state},
            is_wrapped=True,
        )
        return found

    async def pause(self, job_id: str) -> JobView:
        """Pause a job."""
        found: JobView = await self.call("POST", f"/apiv1/jobs/{self.quoted(job_id)}/pause", is_wrapped=True)
        return found

    async def resume(self, job_id: str) -> JobView:
        """Resume a paused job."""
        found: JobView = await self.call("POST", f"/apiv1/jobs/{self.quoted(job_id)}/resume", is_wrapped=True)
        return found

    async def abort(self, job_id: str) -> JobView:
        """Abort a job; what is done stays done."""
        found: JobView = await self.call("POST", f"/apiv1/jobs/{self.quoted(job_id)}/abort", is_wrapped=True)
        return found

    async def approve(self, job_id: str) -> JobView:
        """Approve a job."""
        found: JobView = await self.call("POST", f"/apiv1/jobs/{self.quoted(job_id)}/approve", is_wrapped=True)
        return found

    async def deny(self, job_id: str, *, reason: str | UnsetType | None = UNSET) -> JobView:
        """Deny a job that waits for approval."""
        found: JobView = await self.call(
            "POST", f"/apiv1/jobs/{self.quoted(job_id)}/deny", body=as_body(reason=reason), is_wrapped=True
        )
        return found


class BlockingJobs(BlockingNoun[Jobs]):
    list = blocking_iterator(Jobs.list)
    list_page = blocking(Jobs.list_page)
    get = blocking(Jobs.get)
    items = blocking_iterator(Jobs.items)
    items_page = blocking(Jobs.items_page)
    pause = blocking(Jobs.pause)
    resume = blocking(Jobs.resume)
    abort = blocking(Jobs.abort)
    approve = blocking(Jobs.approve)
    deny = blocking(Jobs.deny)


class Rollouts(Noun):
    def list(
        self,
        *,
        state: Literal["pending_approval", "running", "paused", "done", "aborted", "rolling_back", "rolled_back"]
        | None = None,
    ) -> AsyncGenerator[RolloutView, None]:
        """List rollouts, newest first: all pages."""
        return self.pages("/apiv1/rollouts", {"state": state}, is_wrapped=True)

    async def list_page(
        self,
        *,
        limit: int | None = None,
        after: int | None = None,
        state: Literal["pending_approval", "running", "paused", "done", "aborted", "rolling_back", "rolled_back"]
        | None = None,
    ) -> RolloutViewPage:
        """List rollouts, newest first: one page."""
        found: RolloutViewPage = await self.call(
            "GET", "/apiv1/rollouts", query={"limit": limit, "after": after, "state": state}, is_wrapped=True
        )
        return found

    async def get(self, rollout_id: str) -> RolloutView:
        """Show a rollout and its waves."""
        found: RolloutView = await self.call("GET", f"/apiv1/rollouts/{self.quoted(rollout_id)}", is_wrapped=True)
        return found

    async def create(
        self,
        *,
        target: Literal["devices", "miners"],
        action: Literal["assign_certificate", "patch_config", "put_config", "renew_certificates", "send"],
        name: str | UnsetType = UNSET,
        filter: Mapping[str, Any] | UnsetType = UNSET,
        all: bool | UnsetType = UNSET,
        params: Any | UnsetType = UNSET,
        waves: Sequence[Wave] | UnsetType = UNSET,
        success_percent: int | UnsetType = UNSET,
        error_percent: int | UnsetType = UNSET,
        min_wave_seconds: int | UnsetType = UNSET,
        max_wave_seconds: int | UnsetType = UNSET,
        rate_per_second: int | UnsetType | None = UNSET,
        poll_boost: bool | UnsetType = UNSET,
        dry_run: bool | UnsetType = UNSET,
        idempotency_key: str | None = None,
    ) -> RolloutView:
        """Create a rollout."""
        found: RolloutView = await self.call(
            "POST",
            "/apiv1/rollouts",
            body=as_body(
                target=target,
                action=action,
                name=name,
                filter=filter,
                all=all,
                params=params,
                waves=waves,
                success_percent=success_percent,
                error_percent=error_percent,
                min_wave_seconds=min_wave_seconds,
                max_wave_seconds=max_wave_seconds,
                rate_per_second=rate_per_second,
                poll_boost=poll_boost,
                dry_run=dry_run,
            ),
            idempotency_key=idempotency_key,
            is_wrapped=True,
        )
        return found

    async def change(
        self,
        rollout_id: str,
        *,
        name: str | UnsetType | None = UNSET,
        success_percent: int | UnsetType | None = UNSET,
        error_percent: int | UnsetType | None = UNSET,
        min_wave_seconds: int | UnsetType | None = UNSET,
        max_wave_seconds: int | UnsetType | None = UNSET,
    ) -> RolloutView:
        """Change the name or the thresholds of a rollout."""
        found: RolloutView = await self.call(
            "PATCH",
            f"/apiv1/rollouts/{self.quoted(rollout_id)}",
            body=as_body(
                name=name,
                success_percent=success_percent,
                error_percent=error_percent,
                min_wave_seconds=min_wave_seconds,
                max_wave_seconds=max_wave_seconds,
            ),
            is_wrapped=True,
        )
        return found

    def laggards(self, rollout_id: str) -> AsyncGenerator[Laggard, None]:
        """List the items that have not reported success: all pages."""
        return self.pages(f"/apiv1/rollouts/{self.quoted(rollout_id)}/laggards", {}, is_wrapped=True)

    async def laggards_page(
        self, rollout_id: str, *, limit: int | None = None, after: int | None = None
    ) -> LaggardPage:
        """List the items that have not reported success: one page."""
        found: LaggardPage = await self.call(
            "GET",
            f"/apiv1/rollouts/{self.quoted(rollout_id)}/laggards",
            query={"limit": limit, "after": after},
            is_wrapped=True,
        )
        return found

    async def pause(self, rollout_id: str) -> RolloutView:
        """Pause a rollout."""
        found: RolloutView = await self.call(
            "POST", f"/apiv1/rollouts/{self.quoted(rollout_id)}/pause", is_wrapped=True
        )
        return found

    async def resume(self, rollout_id: str) -> RolloutView:
        """Resume a rollout."""
        found: RolloutView = await self.call(
            "POST", f"/apiv1/rollouts/{self.quoted(rollout_id)}/resume", is_wrapped=True
        )
        return found

    async def advance(self, rollout_id: str) -> RolloutView:
        """Begin the next wave now."""
        found: RolloutView = await self.call(
            "POST", f"/apiv1/rollouts/{self.quoted(rollout_id)}/advance", is_wrapped=True
        )
        return found

    async def abort(self, rollout_id: str) -> RolloutView:
        """Abort a rollout; what is done stays done."""
        found: RolloutView = await self.call(
            "POST", f"/apiv1/rollouts/{self.quoted(rollout_id)}/abort", is_wrapped=True
        )
        return found

    async def roll_back(self, rollout_id: str) -> RolloutView:
        """Undo a rollout."""
        found: RolloutView = await self.call(
            "POST", f"/apiv1/rollouts/{self.quoted(rollout_id)}/roll-back", is_wrapped=True
        )
        return found

    async def approve(self, rollout_id: str) -> RolloutView:
        """Approve a rollout."""
        found: RolloutView = await self.call(
            "POST", f"/apiv1/rollouts/{self.quoted(rollout_id)}/approve", is_wrapped=True
        )
        return found

    async def deny(self, rollout_id: str) -> RolloutView:
        """Deny a rollout that waits for approval."""
        found: RolloutView = await self.call("POST", f"/apiv1/rollouts/{self.quoted(rollout_id)}/deny", is_wrapped=True)
        return found


class BlockingRollouts(BlockingNoun[Rollouts]):
    list = blocking_iterator(Rollouts.list)
    list_page = blocking(Rollouts.list_page)
    get = blocking(Rollouts.get)
    create = blocking(Rollouts.create)
    change = blocking(Rollouts.change)
    laggards = blocking_iterator(Rollouts.laggards)
    laggards_page = blocking(Rollouts.laggards_page)
    pause = blocking(Rollouts.pause)
    resume = blocking(Rollouts.resume)
    advance = blocking(Rollouts.advance)
    abort = blocking(Rollouts.abort)
    roll_back = blocking(Rollouts.roll_back)
    approve = blocking(Rollouts.approve)
    deny = blocking(Rollouts.deny)


class PollBoost(Noun):
    async def get(self) -> PollBoostView:
        """Show the current poll boost."""
        found: PollBoostView = await self.call("GET", "/apiv1/poll-boost", is_wrapped=True)
        return found

    async def start(self, *, for_seconds: int, interval_seconds: int | UnsetType = UNSET) -> PollBoostView:
        """Start a poll boost: the fleet polls faster for a limited time."""
        found: PollBoostView = await self.call(
            "PUT",
            "/apiv1/poll-boost",
            body=as_body(for_seconds=for_seconds, interval_seconds=interval_seconds),
            is_wrapped=True,
        )
        return found

    async def stop(self) -> None:
        """Stop the poll boost."""
        await self.call("DELETE", "/apiv1/poll-boost")


class BlockingPollBoost(BlockingNoun[PollBoost]):
    get = blocking(PollBoost.get)
    start = blocking(PollBoost.start)
    stop = blocking(PollBoost.stop)
