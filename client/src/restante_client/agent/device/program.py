"""`restante-agent device`: the loop around the worker, and the commands of the program."""

from __future__ import annotations

import platform
import socket
import sys
import time
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Optional

import httpx

from restante_client import BlockingDeviceClient, DeviceCode, DeviceDescription, DeviceOptions
from restante_client.agent.device import checks
from restante_client.agent.device.config import DeviceConfig
from restante_client.agent.device.config_work import identity_of
from restante_client.agent.device.install import plan
from restante_client.agent.device.install.consent import script_hash
from restante_client.agent.device.parts import CONFIG
from restante_client.agent.device.staging import Staging
from restante_client.agent.device.store import AgentStore
from restante_client.agent.device.worker import Worker
from restante_client.agent.program import Check, Command, ExitCode, Program, ProgramError
from restante_client.agent.stopping import StoppableRuntime
from restante_client.calls import CLIENT_VERSION
from restante_client.device.models import Signal
from restante_client.device.store import DeviceStore
from restante_client.errors import CursorExpired, RestanteError

AGENT = "restante-agent"
# How often a waiting agent looks for tasks that another process (`apply`) has added.
LOOK_SECONDS = 10.0


class DeviceProgram(Program[DeviceConfig]):
    config_type = DeviceConfig

    def run(self, *, is_once: bool) -> ExitCode:
        pauses = Pauses(self)
        with self._device(pauses) as device:
            if not device.is_enrolled:
                raise ProgramError("not enrolled: call `restante-agent device enrol`", ExitCode.needs_person)
            worker = pauses.worker = self.worker(device)
            self.log.info("started", device_id=device.store.device_id, version=CLIENT_VERSION)
            worker.start()
            public_id = device.store.public_id
            worker.add_report("agent_version", agent=AGENT, version=CLIENT_VERSION, device_public_id=public_id)
            if is_once:
                self._run_once(device, worker)
                return ExitCode.failed if worker.failures else ExitCode.done
            for signal in device.updates():
                if self.context.stopper.is_stopped:
                    break
                self._handle(signal, worker)
        self.log.info("stopped")
        return ExitCode.done

    def _run_once(self, device: BlockingDeviceClient, worker: Worker) -> None:
        """Poll until there is nothing new, without waiting."""
        worker.work()
        while not self.context.stopper.is_stopped:
            before = device.store.cursor
            try:
                result = device.poll()
            except CursorExpired as error:
                worker.add_everything()
                worker.work()
                if error.reset_cursor is None or error.reset_cursor == before:
                    raise
                device.store.save_cursor(error.reset_cursor)
                continue
            for signal in result.signals:
                if not device.store.is_handled(signal):
                    self._handle(signal, worker)
                    device.store.save_handled(signal)
            device.confirm(result)
            if not result.signals or result.cursor == before:
                return

    def _handle(self, signal: Signal, worker: Worker) -> None:
        """After this, the signal's task is on disk, and was tried once."""
        self.log.info("signal", type=signal.type, ts_ms=signal.ts_ms)
        worker.add(signal)
        worker.work()

    def status(self) -> dict[str, Any]:
        if not self.context.has_state:
            return {"server": self.config.server, "is_enrolled": False, "is_running": False}
        store = DeviceStore(self.context.state)
        try:
            return _status(self, store)
        finally:
            store.close()

    def doctor(self) -> Iterator[Check]:
        yield from checks.all_checks(self)

    def _device(self, pauses: Optional[Pauses] = None) -> BlockingDeviceClient:
        runtime = StoppableRuntime(self.context.stopper, _is_poll, **self.config.http_options())
        options = DeviceOptions(
            timeout_seconds=self.config.timeout_seconds,
            resync=pauses.resync if pauses else None,
            pause=pauses.pause if pauses else None,
        )
        return BlockingDeviceClient(self.config.server, self.context.state, options, runtime=runtime)

    def worker(self, device: BlockingDeviceClient) -> Worker:
        store = AgentStore(device.store.state)
        return Worker(self.config, self.context.state, device, store, self.log, self.context.stopper)

    # Commands of this program

    def enrol(self, parsed: Namespace) -> ExitCode:
        """Register this device, with the approval of a person or with a registration code."""
        description = DeviceDescription(
            name=self.config.name or socket.gethostname(),
            platform=platform.system().lower(),
            model=self.config.model,
            app_version=f"{AGENT} {CLIENT_VERSION}",
        )
        with self._device() as device:
            if parsed.code_file is not None:
                text = sys.stdin.read() if str(parsed.code_file) == "-" else parsed.code_file.read_text()
                device.register(text.strip(), description, parsed.user_id)
            else:
                device.enrol(_show_code, description)
            sys.stdout.write(f"enrolled as device {device.store.device_id}\n")
        return ExitCode.done

    def show(self, _: Namespace) -> ExitCode:
        """Print the config that was fetched last, with what a person must know before approving it."""
        with _opened(self) as store:
            wanted = AgentStore(store.state).config("wanted")
            if wanted is None:
                raise ProgramError("no install config was fetched yet")
            result = AgentStore(store.state).get("result") or {}
            sys.stdout.write(f"version {wanted.version}: {result.get('result', 'fetched')}\n")
            for item in plan.checked_items(wanted):
                sys.stdout.write(f"  {_described(item)}\n")
            if wanted.after_update_script:
                sys.stdout.write(f"  after_update_script, SHA-256 {script_hash(wanted.after_update_script)}\n")
        return ExitCode.done

    def apply(self, _: Namespace) -> ExitCode:
        """Approve the config that was fetched last, also if it failed before."""
        with _opened(self) as opened:
            store = AgentStore(opened.state)
            wanted = store.config("wanted")
            if wanted is None:
                raise ProgramError("no install config was fetched yet")
            with store.state.transaction():
                store.put("approved", identity_of(wanted))
                store.put_task(CONFIG)
        if self.is_running():
            sys.stdout.write(f"version {wanted.version} is approved; the running agent applies it\n")
            return ExitCode.done
        with self.running(), self._device() as device:
            worker = self.worker(device)
            worker.start()
            worker.work()
            result = AgentStore(device.store.state).get("result") or {}
        sys.stdout.write(f"version {wanted.version}: {result.get('result')}\n")
        return ExitCode.done if result.get("result") == "applied" else ExitCode.failed


def _enrol_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("--code-file", type=Path, metavar="FILE", help="a registration code in a file, or - for stdin")
    parser.add_argument("--user-id", type=int, metavar="ID", help="the user to whom the registration code belongs")


DeviceProgram.commands = {
    "enrol": Command("register this device", DeviceProgram.enrol, _enrol_arguments),
    "show": Command("print the install config that was fetched last", DeviceProgram.show),
    "apply": Command("approve the install config that was fetched last, and apply it", DeviceProgram.apply),
}


class Pauses:
    """What the agent does before each poll: work, and wait."""

    worker: Worker

    def __init__(self, program: DeviceProgram) -> None:
        self._stopper = program.context.stopper
        self._log = program.log
        self._is_failing = False

    def pause(self, seconds: float, failure: Optional[RestanteError]) -> None:
        if failure is not None and not self._is_failing:
            self._log.warning("server does not answer", reason=str(failure))
        self._is_failing = failure is not None
        self.worker.work()
        end = time.monotonic() + seconds
        while not self._stopper.is_stopped and time.monotonic() < end:
            until_due = max(0.1, self.worker.next_due_at() - time.time())
            self._stopper.pause(min(end - time.monotonic(), LOOK_SECONDS, until_due))
            self.worker.work()
        if self._stopper.is_stopped:
            self.worker.stop_polling()

    def resync(self, error: CursorExpired) -> None:
        self._log.warning("signals were lost, the whole state is compared", reason=error.reason)
        self.worker.add_everything()


def _is_poll(request: httpx.Request) -> bool:
    return request.url.path.endswith("/self/updates")


def _show_code(code: DeviceCode) -> None:
    sys.stdout.write(f"Open {code.verification_uri} and enter {code.user_code}\n")
    sys.stdout.flush()


class _opened:
    """The state of an enrolled device, for a command."""

    def __init__(self, program: DeviceProgram) -> None:
        if not program.context.has_state:
            raise ProgramError("not enrolled: call `restante-agent device enrol`", ExitCode.needs_person)
        self._store = DeviceStore(program.context.state)

    def __enter__(self) -> DeviceStore:
        return self._store

    def __exit__(self, *error: object) -> None:
        self._store.close()


def _described(item: Any) -> str:
    parts = [item.id, item.type, "" if item.enabled else "(disabled)"]
    found = plan.object_of(item)
    parts.append(f"{found[0]} {found[1]}" if found else "")
    parts.append(", ".join(f"{source} to {target}" for source, target in zip(item.sources, item.targets)))
    command = item.cmd_argv or item.cmd
    parts.append("" if command is None else command if isinstance(command, str) else " ".join(command))
    return " ".join(part for part in parts if part)


def _status(program: DeviceProgram, device: DeviceStore) -> dict[str, Any]:
    store = AgentStore(device.state)
    staging = Staging(program.context.state)
    wanted, applied = store.config("wanted"), store.config("applied")
    result = store.get("result") or {}
    return {
        "server": program.config.server,
        "is_enrolled": device.session is not None,
        "is_running": program.is_running(),
        "device_id": device.device_id,
        "cursor": device.cursor,
        "fetched_version": wanted.version if wanted else None,
        "applied_version": applied.version if applied else None,
        "last_result": result.get("result"),
        "last_error": result.get("error") or None,
        "certificates": [_staged(staging, "cert", id) for id in staging.ids("cert")],
        "authorities": [
            {"id": each.ca_id, "name": each.name, "fingerprint": each.fingerprint} for each in store.authorities()
        ],
        "tasks": [{"task": task.kind, "id": task.id, "attempts": task.attempts} for task in store.tasks()],
        "own_signals_waiting": store.count_own_signals(),
        "reports_waiting": len(store.reports()),
    }


def _staged(staging: Staging, kind: str, id: int) -> dict[str, Any]:
    meta = staging.meta(kind, id) or {}
    return {"id": id, **{name: meta.get(name) for name in ("domain_name", "serial", "not_after")}}
