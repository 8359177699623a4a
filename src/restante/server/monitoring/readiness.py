"""Whether the server can serve: a read succeeds, writes reach the disk, and the database's file is still there.

A write that succeeded lately proves that writes succeed, unless one has failed since. If there was none, a small one is
tried: at most one at a time, so that callers of the health check cannot load the database.

The reason that a caller gets names no path and no host: the health check requires no token. The log has the details.
"""

import asyncio
import os
import shutil
import time
from pathlib import Path

import structlog

from restante.database.connection import Connection
from restante.database.database import Database
from restante.database.errors import DatabaseError
from restante.database.queries import queries_beside
from restante.identity import revocation_counter

SQL = queries_beside(__file__)

log = structlog.get_logger()

ANSWER_SECONDS = 2.0
FREE_BYTES_MIN = 16 * 1024 * 1024
# For so long a write that succeeded proves that writes succeed.
RECENT_SECONDS = 5.0
# For so long the failure of a tried write stands.
RETRY_SECONDS = 1.0
# The rows for tried writes; each process uses one.
ROWS = 64

NO_ANSWER = "the database does not answer"


def touch(conn: Connection) -> None:
    """The smallest write that must reach the disk."""
    conn.run(SQL.touch, name=f"readiness {os.getpid() % ROWS}")


class Readiness:
    def __init__(self, database: Database, data: Path) -> None:
        self._database = database
        self._data = data
        self._one_at_a_time = asyncio.Lock()
        self._failed_at = -RETRY_SECONDS
        self._failure = ""
        self._logged: str | None = None

    async def problem(self) -> str | None:
        """Why the server cannot serve; None if it can."""
        problem, detail = await self._find_problem()
        if problem != self._logged:
            self._logged = problem
            if problem is None:
                log.info("ready again")
            else:
                log.error("not ready", reason=problem, error=detail)
        return problem

    async def _find_problem(self) -> tuple[str | None, str]:
        """The reason for callers, and the details for the log."""
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                found = await asyncio.to_thread(self._check_files)
                if found is not None:
                    return found
                await self._database.read(revocation_counter.current)
                async with self._one_at_a_time:
                    return await self._check_writes()
        except (TimeoutError, DatabaseError) as error:
            return "the database does not answer", str(error) or "no answer in time"

    def _check_files(self) -> tuple[str, str] | None:
        try:
            free_bytes = shutil.disk_usage(self._data).free
        except FileNotFoundError:
            return "the data folder is gone", str(self._data)
        except OSError as error:
            return "the data folder cannot be read", str(error)
        if free_bytes < FREE_BYTES_MIN:
            return "the disk is full", f"{free_bytes} bytes are free"
        lost = self._database.lost_file()
        return None if lost is None else ("the database file is gone or was replaced", lost)

    async def _check_writes(self) -> tuple[str | None, str]:
        now, database = time.monotonic(), self._database
        if database.write_failed_at < database.wrote_at and now < database.wrote_at + RECENT_SECONDS:
            return None, ""
        if now >= self._failed_at + RETRY_SECONDS:
            try:
                await database.write(touch)
            except DatabaseError as error:
                self._failed_at, self._failure = time.monotonic(), str(error)
            else:
                return None, ""
        return "writes fail", self._failure
