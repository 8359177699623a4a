"""The client of a device.

    enrol ─▶ tokens in the state folder ─▶ poll ─▶ signals ─▶ handler ─▶ handled and cursor in the state folder
                   ▲        │ 401 or soon expired                              │ handler raised: nothing is stored,
                   └────────┘ refresh, one process at a time                   ▼ the signal is delivered again

Invariants:
- The cursor is stored only after every signal before it was handled.
- A new pair of tokens is on disk before it is used.
"""

from __future__ import annotations

import base64
import time
from collections.abc import AsyncGenerator, Awaitable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Callable, Optional, TypeVar, Union

import msgspec

from restante_client.calls import PAUSE_SECONDS_MAX, TIMEOUT_SECONDS, decode
from restante_client.clients import BlockingClient, Client, blocking_runtime
from restante_client.device.models import (
    NOTIFY_SCHEMA,
    AuthorityBundle,
    CertificateBundle,
    DeviceCode,
    DeviceDescription,
    InstallConfig,
    Session,
    Signal,
    without_nulls,
)
from restante_client.device.store import DeviceStore, StoredSession
from restante_client.errors import (
    CursorExpired,
    EnrolmentRefused,
    RestanteError,
    SessionEnded,
    StateError,
    Unauthorized,
    Unavailable,
    Unreachable,
)
from restante_client.pacing import Backoff, NextPoll, PollPacing
from restante_client.runtime import (
    Response,
    Runtime,
    blocking,
    blocking_iterator,
)

if TYPE_CHECKING:
    from restante_client.device.bundles import OpenedBundle

SELF = "apiv1/devices/self/"
SIGNALS_MAX = 100
# Refresh a token that expires within this time, so that a request does not meet its end.
RENEW_BEFORE_SECONDS = 60.0
REFRESH_LOCK = "refresh"

T = TypeVar("T")
Handler = Callable[[Signal], Union[Awaitable[None], None]]
ResyncHandler = Callable[[CursorExpired], Union[Awaitable[None], None]]
Pause = Callable[[float, Optional[RestanteError]], Union[Awaitable[None], None]]


@dataclass(frozen=True)
class DeviceOptions:
    """How a device calls.

    `resync` is called when the server cannot continue from the cursor: fetch the whole state. `pause` is called before
    each poll instead of a wait, with the seconds to wait and the error of the last poll, if it failed. `http`: options
    of httpx, such as `verify`, `proxy`, `headers` and `cookies`.
    """

    timeout_seconds: float = TIMEOUT_SECONDS
    limit: int = 20
    is_adaptive: bool = False
    resync: Optional[ResyncHandler] = None
    pause: Optional[Pause] = None
    http: Optional[dict[str, Any]] = None


DEFAULTS = DeviceOptions()
NO_DESCRIPTION = DeviceDescription()


class _Enrolment(msgspec.Struct, frozen=True):
    status: str
    user_id: Optional[int] = None
    registration_code: Optional[str] = None
    access_token: Optional[str] = None
    refresh_token: Optional[str] = None
    expires_in: float = 3600


class _RegisteredDevice(msgspec.Struct, frozen=True):
    id: int


class _Registration(msgspec.Struct, frozen=True):
    device: _RegisteredDevice
    session: Session


class _Updates(msgspec.Struct, frozen=True):
    cursor: str
    signals: list[Signal]


@dataclass(frozen=True)
class PollResult:
    """One response to a poll. `interval_seconds` is the time until the next poll, as the server sent it."""

    signals: Sequence[Signal]
    cursor: str
    interval_seconds: Optional[float]


class DeviceClient(Client):
    """A device, for programs with asyncio.

    async with DeviceClient("https://restante.example", Path("/var/lib/agent")) as device:
        await device.enrol(lambda code: print(code.verification_uri, code.user_code))
        async for signal in device.updates():
            print(signal.type, signal.ref)
    """

    _store: DeviceStore

    def __init__(
        self, url: str, folder: Path, options: DeviceOptions = DEFAULTS, *, runtime: Runtime | None = None
    ) -> None:
        super().__init__(url, options.timeout_seconds, options.http, runtime)
        self._store = DeviceStore(folder)
        self._options = options
        self._pacing = PollPacing(is_adaptive=options.is_adaptive)

    def __repr__(self) -> str:
        return f"{type(self).__name__}(device_id={self._store.device_id})"

    @property
    def store(self) -> DeviceStore:
        """The stored state of this device."""
        return self._store

    @property
    def is_enrolled(self) -> bool:
        """Whether this device has tokens."""
        return self._store.session is not None

    # Enrolment

    async def start_enrolment(self, scopes: Sequence[str] = ()) -> DeviceCode:
        """Request access. Show `user_code` and `verification_uri` to a person who may approve it."""
        body = {"action": "device_start", **({"scopes": list(scopes)} if scopes else {})}
        response = await self._caller.call("POST", "auth/device", json=body)
        return _data(response, DeviceCode)

    async def finish_enrolment(self, code: DeviceCode, description: DeviceDescription = NO_DESCRIPTION) -> None:
        """Wait for the approval, then register this device, or get new tokens for a device that is registered."""
        interval_seconds, end = code.interval, time.monotonic() + code.expires_in
        backoff = Backoff(interval_seconds)
        body: dict[str, Any] = {"action": "device_poll", "device_code": code.device_code}
        if self._store.device_id is not None:
            body["device_id"] = self._store.device_id
        while time.monotonic() < end and not self._is_stopped:
            try:
                found = _data(await self._caller.call("POST", "auth/device", json=body), _Enrolment)
                backoff.succeeded()
            except (Unavailable, Unreachable) as error:
                await self._runtime.sleep(
                    max(interval_seconds, backoff.failed(getattr(error, "retry_after_seconds", None)))
                )
                continue
            status = found.status
            if status == "ready":
                return await self._finish(found, description)
            if status in ("access_denied", "expired"):
                raise EnrolmentRefused(f"the device was not approved: {status}")
            interval_seconds += 5 if status == "slow_down" else 0
            await self._runtime.sleep(interval_seconds)
        raise EnrolmentRefused("the device was not approved in time")

    async def enrol(
        self,
        show: Callable[[DeviceCode], Union[Awaitable[None], None]],
        description: DeviceDescription = NO_DESCRIPTION,
        scopes: Sequence[str] = (),
    ) -> None:
        """Start the enrolment, call `show` with what a person needs, and wait for the approval."""
        code = await self.start_enrolment(scopes)
        await self._runtime.call(show, code)
        await self.finish_enrolment(code, description)

    async def register(
        self,
        registration_code: str,
        description: DeviceDescription = NO_DESCRIPTION,
        user_id: Optional[int] = None,
    ) -> None:
        """Register this device with a registration code. Registering again replaces the tokens."""
        body = {
            **msgspec.to_builtins(description),
            "registration_code": registration_code,
            "device_public_id": self._store.public_id,
            "dev_pk": base64.b64encode(bytes(self._store.private_key.public_key)).decode(),
            **({} if user_id is None else {"user_id": user_id}),
        }
        found = _data(await self._caller.call("POST", "apiv1/device/registration", json=body), _Registration)
        self._store.save_registration(found.device.id, found.session)

    async def _finish(self, found: _Enrolment, description: DeviceDescription) -> None:
        if found.registration_code is not None:
            await self.register(found.registration_code, description, found.user_id)
        elif found.access_token is not None and found.refresh_token is not None:
            self._store.save_session(Session(found.access_token, found.refresh_token, found.expires_in))
        else:
            raise Unreachable("the device is approved, but the response has neither a code nor tokens")

    # Updates

    async def poll(self, wait_seconds: int = 0) -> PollResult:
        """Poll once, without changing the cursor: call `confirm` after the signals were handled."""
        cursor = self._store.cursor
        response = await self._call(
            "GET",
            SELF + "updates",
            query={"limit": self._options.limit, **({"wait": wait_seconds} if wait_seconds else {})},
            headers={} if cursor is None else {"If-None-Match": cursor},
            more_seconds=wait_seconds,
        )
        signals: list[Signal] = []
        next_cursor = response.headers.get("ETag", "")
        if response.status == 200:
            data = _data(response, _Updates)
            signals, next_cursor = data.signals, data.cursor
        elif not next_cursor:
            raise Unreachable("the response to a poll has no cursor")
        return PollResult(signals, next_cursor, _interval(response))

    async def confirm(self, result: PollResult) -> None:
        """Store the cursor of a response whose signals were all handled."""
        self._store.save_cursor(result.cursor)

    async def updates(self) -> AsyncGenerator[Signal, None]:
        """All signals, for ever, each once it is published.

        The client marks a signal as handled when the loop requests the next one. If the loop ends before, the server
        delivers the signal again. The client repeats failed requests with back-off; `Forbidden` and `SessionEnded` end
        the loop. It leaves duplicates out.
        """
        backoff = Backoff()
        next_poll = NextPoll(0.0, 0)
        failure: Optional[RestanteError] = None
        while not self._is_stopped:
            await self._pause(next_poll.pause_seconds, failure)
            failure = None
            if self._is_stopped:
                return
            started = time.monotonic()
            try:
                result = await self.poll(next_poll.wait_seconds)
            except CursorExpired as error:
                await self._resync(error)
                next_poll = NextPoll(0.0, 0)
                continue
            except (Unavailable, Unreachable) as error:
                failure = error
                next_poll = NextPoll(backoff.failed(getattr(error, "retry_after_seconds", None)), 0)
                continue
            backoff.succeeded()
            has_progress = result.cursor != self._store.cursor
            for signal in result.signals:
                if self._store.is_handled(signal):
                    continue
                yield signal
                self._store.save_handled(signal)
            await self.confirm(result)
            now = time.monotonic()
            if result.signals and has_progress:
                next_poll = self._pacing.after_signals()
                continue
            held = next_poll
            next_poll = self._pacing.after_idle(result.interval_seconds, now)
            early_seconds = held.wait_seconds - (now - started)
            if next_poll.pause_seconds == 0.0 and early_seconds > 0:
                # The server ended the poll early, for example because it stops: do not call in a tight loop.
                next_poll = NextPoll(early_seconds, next_poll.wait_seconds)

    async def run(self, handler: Handler) -> None:
        """Call the handler with each signal, in order. A signal counts as handled when the handler returns."""
        async for signal in self.updates():
            await self._runtime.call(handler, signal)

    def expect(self, seconds: float) -> None:
        """Use long polls for this time, because something is expected soon."""
        self._pacing.expect_until(time.monotonic() + seconds)

    async def _pause(self, seconds: float, failure: Optional[RestanteError]) -> None:
        if self._options.pause is not None:
            await self._runtime.call(self._options.pause, seconds, failure)
        else:
            await self._runtime.sleep(seconds)

    async def _resync(self, error: CursorExpired) -> None:
        """Let the program fetch the whole state, then continue where the server says. Every later change follows."""
        if self._options.resync is not None:
            await self._runtime.call(self._options.resync, error)
        if error.reset_cursor is None:
            raise Unreachable("the server cannot continue from the cursor and names no other") from error
        self._store.save_cursor(error.reset_cursor)

    # What a device fetches

    async def install_config(self, known_version: Optional[int] = None) -> Optional[InstallConfig]:
        """The install config, or None if it still has the known version."""
        headers = {} if known_version is None else {"If-None-Match": f'"{known_version}"'}
        response = await self._call("GET", SELF + "install-config", headers=headers)
        if response.status == 304:
            return None
        try:
            found = decode(response, dict)["data"]
            items = [without_nulls(item) for item in found["installs"]]
            return msgspec.convert({**found, "installs": items}, InstallConfig)
        except (KeyError, TypeError, AttributeError, msgspec.ValidationError) as error:
            raise _unexpected(error) from None

    async def certificate(self, certificate_id: int) -> dict[str, Any]:
        """The names, serial, issuer, validity and PEM of a certificate, without the key."""
        found: dict[str, Any] = _data(await self._call("GET", f"{SELF}certificates/{certificate_id}"), dict)
        return found

    async def sealed_bundle(self, certificate_id: int) -> CertificateBundle:
        """A certificate with its private key, encrypted for this device: see `open_bundle`."""
        return _data(await self._call("GET", f"{SELF}certificates/{certificate_id}/bundle"), CertificateBundle)

    async def certificate_bundle(self, certificate_id: int) -> OpenedBundle:
        """A certificate with its private key, decrypted with the key of this device."""
        # A device without certificates does not load the cryptography.
        from restante_client.device.bundles import open_bundle

        return open_bundle(await self.sealed_bundle(certificate_id), self._store.private_key)

    async def authority_bundle(self, ca_id: int) -> AuthorityBundle:
        """A certificate authority that this device must trust."""
        return _data(await self._call("GET", f"{SELF}cas/{ca_id}/bundle"), AuthorityBundle)

    async def report(self, *events: dict[str, Any]) -> None:
        """Report to the server what this device did."""
        await self._call("POST", SELF + "notify", json={"schema": NOTIFY_SCHEMA, "events": list(events)})

    # Tokens

    async def refresh(self) -> None:
        """Get new tokens, whatever the age of the current ones."""
        await self._refresh(self._session().access_token)

    async def _call(self, method: str, path: str, **options: Any) -> Response:
        session = self._session()
        if session.expires_at - time.time() < RENEW_BEFORE_SECONDS:
            session = await self._refresh(session.access_token)
        try:
            return await self._caller.call(method, path, token=session.access_token, **options)
        except Unauthorized:
            session = await self._refresh(session.access_token)
            return await self._caller.call(method, path, token=session.access_token, **options)

    async def _refresh(self, old_access_token: str) -> StoredSession:
        """Exchange the refresh token, unless another process has already done it."""
        async with self._store.state.lock(REFRESH_LOCK, self._runtime, self._options.timeout_seconds * 2):
            session = self._session()
            if session.access_token != old_access_token:
                return session
            body = {"refresh_token": session.refresh_token}
            try:
                response = await self._caller.call("POST", "auth/refresh", json=body)
            except Unauthorized as error:
                raise SessionEnded(f"the refresh token is no longer valid: {error.message}") from None
            self._store.save_session(_data(response, Session))
            return self._session()

    def _session(self) -> StoredSession:
        session = self._store.session
        if session is None:
            raise StateError("the device is not enrolled: call `enrol` or `register` first")
        return session


class BlockingDeviceClient(BlockingClient[DeviceClient]):
    """A device, for programs without asyncio: the same methods as `DeviceClient`.

    with BlockingDeviceClient("https://restante.example", Path("/var/lib/agent")) as device:
        for signal in device.updates():
            print(signal.type, signal.ref)
    """

    def __init__(
        self, url: str, folder: Path, options: DeviceOptions = DEFAULTS, *, runtime: Runtime | None = None
    ) -> None:
        runtime = blocking_runtime(runtime, options.http)
        super().__init__(DeviceClient(url, folder, options, runtime=runtime))

    @property
    def store(self) -> DeviceStore:
        return self.client.store

    @property
    def is_enrolled(self) -> bool:
        return self.client.is_enrolled

    start_enrolment = blocking(DeviceClient.start_enrolment)
    finish_enrolment = blocking(DeviceClient.finish_enrolment)
    enrol = blocking(DeviceClient.enrol)
    register = blocking(DeviceClient.register)
    poll = blocking(DeviceClient.poll)
    confirm = blocking(DeviceClient.confirm)
    run = blocking(DeviceClient.run)
    install_config = blocking(DeviceClient.install_config)
    certificate = blocking(DeviceClient.certificate)
    sealed_bundle = blocking(DeviceClient.sealed_bundle)
    certificate_bundle = blocking(DeviceClient.certificate_bundle)
    authority_bundle = blocking(DeviceClient.authority_bundle)
    report = blocking(DeviceClient.report)
    refresh = blocking(DeviceClient.refresh)

    def updates(self) -> Iterator[Signal]:
        """All signals, for ever: see `DeviceClient.updates`."""
        return blocking_iterator(DeviceClient.updates)(self)

    def expect(self, seconds: float) -> None:
        """Use long polls for this time, because something is expected soon."""
        self.client.expect(seconds)


def _data(response: Response, kind: type[T]) -> T:
    try:
        return msgspec.convert(decode(response, dict)["data"], kind)
    except (KeyError, TypeError, msgspec.ValidationError) as error:
        raise _unexpected(error) from None


def _unexpected(error: Exception) -> Unreachable:
    return Unreachable(f"the response is not what the protocol says: {error}")


def _interval(response: Response) -> Optional[float]:
    text = response.headers.get("X-Poll-Interval", "")
    return min(float(text), PAUSE_SECONDS_MAX) if text.isascii() and text.isdigit() else None
