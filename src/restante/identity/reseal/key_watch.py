"""Keeps the master key of a running server up to date while it changes, without a restart.

    the change has another state ─▶ read the key files again ─▶ seal with the key that the state names ─▶ report

The key files of the data folder are read again. A key given by the environment is that of the start: such a server
must be restarted with both keys before the change. A server without the new key reports what it knows, so that the
change does not go on without it.
"""

import asyncio
import os
import secrets
import socket
from contextlib import suppress

import structlog

from restante.database.database import Database
from restante.database.errors import DatabaseError
from restante.identity import signing_keys
from restante.identity.master_key import MasterKey, MasterKeyError, MasterKeySource
from restante.identity.reseal import key_change
from restante.identity.reseal.key_change import REPORT_SECONDS, Holder, KeyChange

log = structlog.get_logger()


class KeyWatch:
    def __init__(self, database: Database, master: MasterKey, source: MasterKeySource) -> None:
        self._database = database
        self._master = master
        self._source = source
        self._woken = asyncio.Event()
        self.wake = self._woken.set
        self.problem: str | None = None
        host = f"{socket.gethostname()}, process {os.getpid()}"
        self.holder = Holder(secrets.token_hex(8), host)

    def register(self, *, is_alone: bool) -> None:
        """Report for the first time, before the server serves. `is_alone`: no other process can be running."""
        self._database.write_now(key_change.report, self.holder, self._master)
        if is_alone:
            self._database.write_now(key_change.remove_others, self.holder)

    async def run(self) -> None:
        try:
            while True:
                change = await self._refresh_or_none()
                await self._wait(None if change is None else REPORT_SECONDS)
        finally:
            with suppress(DatabaseError):
                await asyncio.shield(self._database.write(key_change.remove, self.holder))

    async def _wait(self, seconds: float | None) -> None:
        with suppress(TimeoutError):
            await asyncio.wait_for(self._woken.wait(), seconds)
        self._woken.clear()

    async def _refresh_or_none(self) -> KeyChange | None:
        try:
            return await self.refresh()
        except DatabaseError as error:
            log.error("the state of the master key could not be read, will retry", error=str(error))
            await asyncio.sleep(REPORT_SECONDS)
            self.wake()
            return None

    async def refresh(self) -> KeyChange | None:
        """Use the keys that the state of the change requires, and report them; return an unfinished change."""
        change = await self._database.read(key_change.unfinished)
        if change is None and self.problem is None and len(self._master.key_ids) == 1:
            return None
        before = self._master.key_ids
        try:
            found = await self._database.read(signing_keys.matching_master_key, self._source)
        except (MasterKeyError, OSError) as error:
            self._set_problem(str(error))
        else:
            self._set_problem(None)
            if found is not None:
                self._use(found)
        if change is not None or before != self._master.key_ids:
            await self._database.write(key_change.report, self.holder, self._master)
        return change

    def _use(self, found: MasterKey) -> None:
        if found.key_ids == self._master.key_ids:
            return
        # A key that is no longer in its file still opens what this process holds in memory.
        merged = found.sealing_with(found.key_id, [self._master])
        if found.key_id != self._master.key_id:
            log.info("another master key seals from now on", key_id=found.key_id)
        self._master.become(merged)

    def _set_problem(self, problem: str | None) -> None:
        if problem is not None and problem != self.problem:
            log.error("the master key changes, and this server does not have all keys", error=problem)
        self.problem = problem
