"""Operator routes: devices, configs, signals, outbox, poll boost.

Generated from the server's routes by `scripts/generate-operator-client`; do not edit.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping, Sequence
from typing import Any, Literal, TypedDict

from msgspec import UNSET, UnsetType

from restante_client.operator.core import BlockingGroup, Group, as_body
from restante_client.runtime import blocking, blocking_iterator


class Device(TypedDict, total=False):
    """A device in the wire format; times in seconds since the epoch."""

    id: int
    user_id: int
    device_public_id: str
    platform: str
    model: str
    app_version: str
    name: str
    status: Literal["active", "revoked"]
    device_keyfp_b64: str
    created_at: int
    updated_at: int
    last_seen_at: int | None
    revoked_at: int | None
    agent_version: str | None


class DevicePage(TypedDict, total=False):
    """`next` is the `after` of the next page, or None on the last page."""

    items: list[Device]
    next: int | None


class RegistrationResponse(TypedDict, total=False):
    device: Device
    session: TokenPair


class TokenPair(TypedDict, total=False):
    """A device's tokens in the wire format."""

    access_token: str
    refresh_token: str
    token_type: str
    expires_in: int


class InstallConfig(TypedDict, total=False):
    id: int
    user_device_id: int
    version: int
    installs: Any
    installs_json: str
    installs_hash: str | None
    after_update_script: str | None
    updated_by: str | None
    created_at: int
    updated_at: int


class ConfigVersion(TypedDict, total=False):
    """One version in the history, without its items: a page of items could be very large."""

    version: int
    installs_hash: str | None
    change_note: str | None
    changed_by: str
    created_at: int


class ConfigVersionPage(TypedDict, total=False):
    """`next` is the `after` of the next page, or None on the last page."""

    items: list[ConfigVersion]
    next: int | None


class ConfigVersionDetail(TypedDict, total=False):
    version: int
    installs_hash: str | None
    change_note: str | None
    changed_by: str
    created_at: int
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
    next_attempt_at: int | None
    claimed_by: str | None
    claimed_at: int | None
    lock_expires_at: int | None
    failure_reason: str | None
    created_at: int
    delivered_at: int | None
    source: str


class OutboxRowPage(TypedDict, total=False):
    """`next` is the `after` of the next page, or None on the last page."""

    items: list[OutboxRow]
    next: int | None


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


class RolloutView(TypedDict, total=False):
    active: bool
    until: float | None
    interval_seconds: int | None


class Devices(Group):
    def list(self, *, user_id: int | None = None) -> AsyncGenerator[Device, None]:
        """List the devices of every user: all pages."""
        return self.pages("/apiv1/devices", {"user_id": user_id}, is_wrapped=True)

    async def list_page(
        self, *, limit: int | None = None, after: int | None = None, user_id: int | None = None
    ) -> DevicePage:
        """List the devices of every user: one page."""
        found: DevicePage = await self.call(
            "GET", "/apiv1/devices", query={"limit": limit, "after": after, "user_id": user_id}, is_wrapped=True
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

    async def get_of_user(self, user_id: int, device_id: int) -> Device:
        """Show a device."""
        found: Device = await self.call(
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


class BlockingDevices(BlockingGroup[Devices]):
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


class Configs(Group):
    async def get(self, user_id: int, device_id: int) -> InstallConfig:
        """Show the device's install config."""
        found: InstallConfig = await self.call(
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
    ) -> InstallConfig:
        """Replace the device's install config."""
        found: InstallConfig = await self.call(
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
    ) -> InstallConfig:
        """Restore an old version."""
        found: InstallConfig = await self.call(
            "POST",
            f"/apiv1/users/{self.quoted(user_id)}/devices/{self.quoted(device_id)}/install-config/restore",
            body=as_body(version=version, change_note=change_note),
            is_wrapped=True,
        )
        return found


class BlockingConfigs(BlockingGroup[Configs]):
    get = blocking(Configs.get)
    put = blocking(Configs.put)
    history = blocking_iterator(Configs.history)
    history_page = blocking(Configs.history_page)
    version = blocking(Configs.version)
    restore = blocking(Configs.restore)


class Signals(Group):
    async def send(self, user_id: int, device_id: int, *, type: str, ref: Mapping[str, Any]) -> SentSignal:
        """Send the device a signal that the application defines."""
        found: SentSignal = await self.call(
            "POST",
            f"/apiv1/users/{self.quoted(user_id)}/devices/{self.quoted(device_id)}/signals",
            body=as_body(type=type, ref=ref),
            is_wrapped=True,
        )
        return found


class BlockingSignals(BlockingGroup[Signals]):
    send = blocking(Signals.send)


class Outbox(Group):
    def list(
        self,
        *,
        status: Literal["PENDING", "DELIVERED", "FAILED"] | None = None,
        device_id: int | None = None,
        source: str | None = None,
    ) -> AsyncGenerator[OutboxRow, None]:
        """List outbox rows, newest first: all pages."""
        return self.pages(
            "/apiv1/outbox", {"status": status, "device_id": device_id, "source": source}, is_wrapped=True
        )

    async def list_page(
        self,
        *,
        limit: int | None = None,
        after: int | None = None,
        status: Literal["PENDING", "DELIVERED", "FAILED"] | None = None,
        device_id: int | None = None,
        source: str | None = None,
    ) -> OutboxRowPage:
        """List outbox rows, newest first: one page."""
        found: OutboxRowPage = await self.call(
            "GET",
            "/apiv1/outbox",
            query={"limit": limit, "after": after, "status": status, "device_id": device_id, "source": source},
            is_wrapped=True,
        )
        return found

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


class BlockingOutbox(BlockingGroup[Outbox]):
    list = blocking_iterator(Outbox.list)
    list_page = blocking(Outbox.list_page)
    get = blocking(Outbox.get)
    retry = blocking(Outbox.retry)
    retry_all = blocking(Outbox.retry_all)
    sources = blocking(Outbox.sources)


class PollBoost(Group):
    async def get(self) -> RolloutView:
        """Show the current rollout."""
        found: RolloutView = await self.call("GET", "/apiv1/rollout", is_wrapped=True)
        return found

    async def start(self, *, for_seconds: int, interval_seconds: int | UnsetType = UNSET) -> RolloutView:
        """Start a rollout: the fleet polls faster."""
        found: RolloutView = await self.call(
            "PUT",
            "/apiv1/rollout",
            body=as_body(for_seconds=for_seconds, interval_seconds=interval_seconds),
            is_wrapped=True,
        )
        return found

    async def stop(self) -> None:
        """Stop the rollout."""
        await self.call("DELETE", "/apiv1/rollout")


class BlockingPollBoost(BlockingGroup[PollBoost]):
    get = blocking(PollBoost.get)
    start = blocking(PollBoost.start)
    stop = blocking(PollBoost.stop)
