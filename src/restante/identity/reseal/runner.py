"""Changes the master key of a database in use, from the announcement to the proof that the old key is not needed.

    announce ─▶ wait: every server knows the new key ─▶ servers seal with it ─▶ wait: every server does
             ─▶ passes until one finds nothing ─▶ settle ─▶ the same again ─▶ finished ─▶ the key file is replaced

Every step may be repeated: a run that was killed is started again, and continues. Work that a server began before it
sealed with the new key may still be stored afterwards, such as certificates of a bulk job; the last pass waits so long.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from restante.core.errors import Conflict
from restante.database.connection import Connection
from restante.database.database import Database
from restante.identity import signing_keys
from restante.identity.master_key import NEXT_VARIABLE, VARIABLE, MasterKey, MasterKeyError, MasterKeySource
from restante.identity.reseal import key_change, resealing
from restante.identity.reseal.key_change import KeyChange
from restante.identity.reseal.resealing import PassResult
from restante.identity.reseal.sealed_columns import DERIVED_PURPOSES, SealedColumn

POLL_SECONDS = 0.2
PASSES_MAX = 20


@dataclass(frozen=True, slots=True)
class ResealOptions:
    """`wait_seconds`: for the servers to know the new key. `settle_seconds`: before the last pass."""

    wait_seconds: float
    settle_seconds: float


@dataclass(frozen=True, slots=True)
class ResealResult:
    """`resealed`: how many values this run put under the new key. `kept_file`: the file that still has the old key."""

    old_key_id: str
    new_key_id: str
    values: int
    resealed: int
    unreadable: int
    unreadable_names: list[str]
    kept_file: Path | None


class ResealRun:
    def __init__(
        self,
        database: Database,
        source: MasterKeySource,
        options: ResealOptions,
        on_step: Callable[[str], None],
        on_progress: Callable[[SealedColumn, PassResult], None] = lambda _column, _result: None,
    ) -> None:
        self._database = database
        self._source = source
        self._options = options
        self._on_step = on_step
        self._on_progress = on_progress

    def run(self) -> ResealResult:
        change = self._begun()
        if change.finished_at is None:
            self._wait(change, "knows the new key", "do not know the new key")
            change = self._sealing(change)
            self._wait(change, "seals with the new key", "do not seal with the new key")
        total = PassResult()
        master = self._master()
        last = self._passes(master, total)
        if change.finished_at is None and self._options.settle_seconds:
            self._on_step(f"Waiting {self._options.settle_seconds:g} s for work that began before")
            time.sleep(self._options.settle_seconds)
            last = self._passes(master, total)
        self._database.write_now(key_change.finish, change)
        kept = self._source.promote_next(change.new_key_id)
        return ResealResult(
            change.old_key_id,
            change.new_key_id,
            last.values,
            total.resealed,
            last.unreadable,
            last.unreadable_names,
            kept,
        )

    def _begun(self) -> KeyChange:
        """The announced change. A finished one whose key file is not in its place yet is returned as it is."""
        current = self._database.read_now(signing_keys.matching_master_key, self._source)
        if current is None:
            raise MasterKeyError("nothing is sealed in this database yet", "there is no master key to change")
        change = self._database.read_now(key_change.newest)
        following = self._next_key()
        if change is not None and change.finished_at is None and following.key_id == change.old_key_id:
            # The files were exchanged before the change was finished: the next key is the old one.
            following = self._source.find() or following
        if change is not None and change.finished_at is not None and following.key_id == change.new_key_id:
            return change
        old_key_id = current.key_id if change is None or change.finished_at is not None else change.old_key_id
        if following.key_id == old_key_id:
            raise MasterKeyError(
                f"{self._source.next_name} has the key that seals the database already",
                "give another key, or remove the file so that a new key is made",
            )
        change = self._database.write_now(key_change.announce, old_key_id, following.key_id)
        self._on_step(f"The master key changes from {change.old_key_id} to {change.new_key_id}")
        return change

    def _next_key(self) -> MasterKey:
        found = self._source.find_next()
        if found is not None:
            return found
        if self._source.from_environment is not None:
            raise MasterKeyError(
                f"the master key is given by {VARIABLE}, and there is no new key",
                f"restart every server with the new key in {NEXT_VARIABLE}, and set it for this command, too",
            )
        made = self._source.make_next()
        self._on_step(f"Made a new key in {self._source.next_path}")
        return made

    def _sealing(self, change: KeyChange) -> KeyChange:
        if not change.is_sealing:
            master = self._master()
            sealing = master.sealing_with(change.new_key_id)
            derived = {
                purpose: sealing.seal(master.derive_key(purpose), key_change.derived_purpose(purpose))
                for purpose in DERIVED_PURPOSES
            }
            self._database.write_now(key_change.start_sealing, change, derived)
        found = self._database.read_now(key_change.newest)
        if found is None or found.new_key_id != change.new_key_id:
            raise Conflict("another change of the master key began meanwhile: reseal again")
        return found

    def _wait(self, change: KeyChange, ready: str, unready: str) -> None:
        """Wait until every running server is ready; raise Conflict with those that are not in time."""
        deadline = time.monotonic() + self._options.wait_seconds
        is_announced = False
        while hosts := self._database.read_now(key_change.unready_hosts, change):
            if not is_announced:
                self._on_step(f"Waiting until every server {ready}: {'; '.join(hosts)}")
                is_announced = True
            if time.monotonic() >= deadline:
                raise Conflict(
                    f"these servers {unready} {change.new_key_id}: {'; '.join(hosts)}. Copy the key into "
                    f"{self._source.next_path.name} of their data folders (mode 0600), or restart them with the key in "
                    f"{NEXT_VARIABLE}; then reseal again to continue. Nothing is lost"
                )
            time.sleep(POLL_SECONDS)

    def _passes(self, master: MasterKey, total: PassResult) -> PassResult:
        """Repeat passes until one has nothing to reseal; return that one."""
        for _ in range(PASSES_MAX):
            found = resealing.run_pass(self._database, master, self._on_progress)
            total.resealed += found.resealed
            if not found.resealed:
                return found
        raise Conflict(f"values under the old key still appeared after {PASSES_MAX} passes: reseal again")

    def _master(self) -> MasterKey:
        return self._database.read_now(_required_master_key, self._source)


def _required_master_key(conn: Connection, source: MasterKeySource) -> MasterKey:
    master = signing_keys.matching_master_key(conn, source)
    if master is None:
        raise MasterKeyError(f"{source} is missing")
    return master
