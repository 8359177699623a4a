"""The checks of `restante-agent device doctor`. They change nothing on this machine."""

from __future__ import annotations

import email.utils
import os
import shlex
import shutil
import stat
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import httpx

from restante_client.agent.device.handlers import problem_of
from restante_client.agent.device.install.trust_stores import TrustStores
from restante_client.agent.program import Check, checked
from restante_client.device.store import KEY_FILE, DeviceStore
from restante_client.state import DATABASE_FILE

if TYPE_CHECKING:
    from restante_client.agent.device.program import DeviceProgram

CLOCK_SECONDS_MAX = 300.0


def all_checks(program: DeviceProgram) -> Iterator[Check]:
    yield checked("state folder", lambda: _state(program), "the folder and its keys must belong to the agent alone")
    yield checked("enrolment", lambda: _enrolment(program), "call `restante-agent device enrol`")
    yield checked("server", lambda: _server(program), "check server and ca_file, the network and the clock")
    yield checked("trust store", lambda: _trust_store(program), "set trust.folder and trust.update_command")
    if program.config.trust.nss_profiles:
        yield checked(
            "NSS", lambda: _nss(program), "install certutil (libnss3-tools, nss-tools), or set trust.certutil"
        )
    for path in program.config.allow.paths:
        yield checked(f"allow.paths {path}", partial(_writable, path), "create it, or let the agent write it")
    for line in program.config.allow.commands:
        yield checked(f"allow.commands {line}", partial(_program, program, line), "install it")
    if program.config.handlers.folder is not None:
        yield from _handlers(Path(program.config.handlers.folder))


def _state(program: DeviceProgram) -> str:
    folder = program.context.state
    if not folder.is_dir():
        raise FileNotFoundError(f"{folder} does not exist yet")
    for path, allowed in ((folder, 0o700), (folder / DATABASE_FILE, 0o600), (folder / KEY_FILE, 0o600)):
        if path.exists() and stat.S_IMODE(path.stat().st_mode) & ~allowed:
            raise PermissionError(f"{path} has the mode {stat.S_IMODE(path.stat().st_mode):04o}, not {allowed:04o}")
    free_bytes = shutil.disk_usage(folder).free
    if free_bytes < 10 * 1024 * 1024:
        raise OSError(f"{folder} has only {free_bytes // 1024} KiB free")
    return str(folder)


def _enrolment(program: DeviceProgram) -> str:
    if not program.context.has_state:
        raise LookupError("not enrolled")
    store = DeviceStore(program.context.state)
    try:
        if store.session is None:
            raise LookupError("not enrolled")
        return f"device {store.device_id}"
    finally:
        store.close()


def _server(program: DeviceProgram) -> str:
    config = program.config
    with httpx.Client(timeout=config.timeout_seconds, **config.http_options()) as client:
        response = client.get(config.server.rstrip("/") + "/health")
    response.raise_for_status()
    sent = email.utils.parsedate_to_datetime(response.headers.get("Date", "")) if "Date" in response.headers else None
    if sent is not None and abs(time.time() - sent.timestamp()) > CLOCK_SECONDS_MAX:
        raise ValueError(f"the clock of this machine differs by {time.time() - sent.timestamp():.0f} s")
    return f"{config.server} answers"


def _trust_store(program: DeviceProgram) -> str:
    store = TrustStores(program.config.trust, program.config.apply.search_path).system_store()
    if store is None:
        return "none, as configured"
    _program_at(store.update_command[0], program.config.apply.search_path)
    return f"{store.name}: {_writable(store.folder)}, {' '.join(store.update_command)}"


def _nss(program: DeviceProgram) -> str:
    _program_at(program.config.trust.certutil, program.config.apply.search_path)
    found = TrustStores(program.config.trust, program.config.apply.search_path).nss_databases()
    return f"{len(found)} databases"


def _writable(path: str) -> str:
    target = path if os.path.isdir(path) else os.path.dirname(path)
    if not os.path.isdir(target):
        raise FileNotFoundError(f"{target} does not exist")
    if not os.access(target, os.W_OK):
        raise PermissionError(f"{target} cannot be written")
    return os.path.realpath(target)


def _program(program: DeviceProgram, line: str) -> str:
    words = shlex.split(line)
    if not words or "*" in words[0]:
        return "any program"
    return _program_at(words[0], program.config.apply.search_path)


def _program_at(name: str, search_path: str) -> str:
    found = shutil.which(name, path=search_path)
    if found is None:
        raise FileNotFoundError(f"{name} is not in apply.search_path")
    return found


def _handlers(folder: Path) -> Iterator[Check]:
    if not folder.is_dir():
        yield Check("handlers.folder", False, f"{folder} does not exist", "create it, or remove handlers.folder")
        return
    for path in sorted(folder.iterdir()):
        problem = problem_of(path)
        yield Check(f"handler {path.name}", problem is None, problem or str(path), "chmod 0755, owner root")
