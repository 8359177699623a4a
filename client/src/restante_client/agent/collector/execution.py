"""Carries out a command on its miners, and reports the result truthfully.

    command ─▶ miners of the inventory ─▶ for each, under its lock: lease held? ─▶ read ─▶ operate ─▶ read ─▶ result

What a miner's error means for the command:

    MinerUnreachable, NoAnswer     failed: the server may try again
    MinerRefused, NotSupported     rejected: trying again does not help
    not in the inventory           rejected
    the lease has ended meanwhile  deferred, and nothing was sent
    delayed by its parameter       deferred until it is due

A command for several miners succeeds if all of them did it. A retry goes only to the miners that failed before: the
miners that did it are recorded on disk.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Callable, Optional

from restante_client.agent.collector.drivers import (
    POWER_MODES,
    Driver,
    MinerError,
    MinerRefused,
    MinerUnreachable,
    NoAnswer,
    NotSupported,
    Pool,
    Reading,
)
from restante_client.agent.collector.inventory import Inventory, Miner
from restante_client.agent.logs import Log
from restante_client.collector.models import DEFERRED, FAILED, REJECTED, SUCCEEDED, Command, Result
from restante_client.state import StateFolder

PARALLEL_MINERS = 16
BACK_POLL_SECONDS = 0.5
DELAY_SECONDS_MAX = 86_400
REMEMBERED_SECONDS = 40 * 86_400

IsLeaseHeld = Callable[[], bool]
Pause = Callable[[float], bool]


class WrongParameter(Exception):
    """The command cannot be carried out as it is."""


@dataclass(frozen=True)
class Outcome:
    """The result of a command on one miner."""

    miner_id: int
    status: str
    code: str
    message: str
    before: Optional[dict[str, Any]] = None
    after: Optional[dict[str, Any]] = None


class ExecutionRecord:
    """What must survive a restart: when a delayed command is due, and which miners of a command have done it."""

    def __init__(self, state: StateFolder) -> None:
        self._state = state
        with state.transaction() as database:
            database.execute(
                "CREATE TABLE IF NOT EXISTS done_targets (command_id TEXT NOT NULL, miner_id INTEGER NOT NULL,"
                " done_at REAL NOT NULL, PRIMARY KEY (command_id, miner_id)) WITHOUT ROWID"
            )
            database.execute(
                "CREATE TABLE IF NOT EXISTS delayed (command_id TEXT PRIMARY KEY, due_at REAL NOT NULL) WITHOUT ROWID"
            )

    def done_targets(self, command_id: str) -> set[int]:
        rows = self._state.rows("SELECT miner_id FROM done_targets WHERE command_id = ?", command_id)
        return {row[0] for row in rows}

    def add_done(self, command_id: str, miner_id: int) -> None:
        now = time.time()
        with self._state.transaction() as database:
            database.execute("INSERT OR IGNORE INTO done_targets VALUES (?, ?, ?)", (command_id, miner_id, now))
            database.execute("DELETE FROM done_targets WHERE done_at < ?", (now - REMEMBERED_SECONDS,))

    def seconds_until_due(self, command_id: str, delay_seconds: int) -> float:
        """The delay counts from the first time that the command arrives."""
        now = time.time()
        with self._state.transaction() as database:
            database.execute("INSERT OR IGNORE INTO delayed VALUES (?, ?)", (command_id, now + delay_seconds))
            database.execute("DELETE FROM delayed WHERE due_at < ?", (now - REMEMBERED_SECONDS,))
        ((due_at,),) = self._state.rows("SELECT due_at FROM delayed WHERE command_id = ?", command_id)
        # A clock that was set back must not lengthen the delay.
        return float(min(due_at - now, delay_seconds))


class CommandExecutor:
    """Carries out commands. `pause` waits that long, or returns True at once if the program stops."""

    def __init__(
        self, inventory: Inventory, record: ExecutionRecord, pause: Pause, log: Log, *, back_seconds: float = 120.0
    ) -> None:
        self._inventory = inventory
        self._record = record
        self._pause = pause
        self._log = log
        self._back_seconds = back_seconds

    def execute(self, command: Command, is_lease_held: IsLeaseHeld) -> Result:
        try:
            operate = operation(command)
            delay_seconds = _delay(command)
        except WrongParameter as error:
            return Result(REJECTED, "WRONG_PARAMETER", str(error))
        left_seconds = self._record.seconds_until_due(command.command_id, delay_seconds) if delay_seconds else 0.0
        if left_seconds > 0:
            # The server dispatches it again then: no worker and no lease is kept meanwhile.
            left = math.ceil(left_seconds)
            return Result(DEFERRED, "DELAYED", f"due in {left} s", retry_after_seconds=left)
        if command.miner_id is not None:
            return _single(self._on_miner(command, command.miner_id, operate, is_lease_held))
        return self._on_several(command, operate, is_lease_held)

    def _on_several(self, command: Command, operate: Operation, is_lease_held: IsLeaseHeld) -> Result:
        targets = command.target_ids
        if not targets:
            return Result(REJECTED, "NO_TARGETS", "the command names no miner")
        done = self._record.done_targets(command.command_id)

        def run(miner_id: int) -> Outcome:
            if miner_id in done:
                return Outcome(miner_id, SUCCEEDED, "0", "done in an earlier attempt")
            outcome = self._on_miner(command, miner_id, operate, is_lease_held)
            if outcome.status == SUCCEEDED:
                self._record.add_done(command.command_id, miner_id)
            return outcome

        with ThreadPoolExecutor(min(PARALLEL_MINERS, len(targets)), "miner") as threads:
            return _combined(list(threads.map(run, targets)))

    def _on_miner(self, command: Command, miner_id: int, operate: Operation, is_lease_held: IsLeaseHeld) -> Outcome:
        miner = self._inventory.get(miner_id)
        if miner is None:
            return Outcome(miner_id, REJECTED, "NOT_IN_INVENTORY", f"miner {miner_id} is not in the local inventory")
        with miner.lock:
            if not is_lease_held():
                return Outcome(miner_id, DEFERRED, "LEASE_ENDED", "the lease ended before anything was sent")
            return self._operate(command, miner, operate)

    def _operate(self, command: Command, miner: Miner, operate: Operation) -> Outcome:
        before: Optional[Reading] = None
        try:
            before = miner.driver.read()
            message = operate(miner.driver)
            after = self._back(miner) if command.command_type in RESTARTING else _read(miner)
        except (MinerRefused, NotSupported) as error:
            return _outcome(miner, REJECTED, error.code, str(error), before)
        except NoAnswer as error:
            sent = "" if before is None else "; it may have done it"
            return _outcome(miner, FAILED, error.code, f"{error}{sent}", before)
        except MinerError as error:
            return _outcome(miner, FAILED, error.code, str(error), before)
        self._log.info("command executed", command_id=command.command_id, miner_id=miner.id, type=command.command_type)
        return _outcome(miner, SUCCEEDED, "0", message, before, after)

    def _back(self, miner: Miner) -> Optional[Reading]:
        """Wait until the miner answers again after a restart. None if the program stops meanwhile."""
        end = time.monotonic() + self._back_seconds
        while True:
            try:
                return miner.driver.read()
            except (MinerUnreachable, NoAnswer) as error:
                if self._pause(BACK_POLL_SECONDS):
                    return None
                if time.monotonic() >= end:
                    raise NotBack(f"it accepted the restart and does not answer since: {error}") from None


class NotBack(MinerError):
    """A restarted miner does not answer."""

    code = "MINER_NOT_BACK"


Operation = Callable[[Driver], str]

RESTARTING = ("MINER_RESTART", "DEVICE_REBOOT")


def operation(command: Command) -> Operation:
    """What the command does to a miner. Raises `WrongParameter` before anything is sent."""
    params = command.params
    if command.command_type == "MINER_RESTART":
        return lambda driver: driver.restart()
    if command.command_type == "DEVICE_REBOOT":
        return lambda driver: driver.reboot()
    if command.command_type == "HASHING_ENABLE":
        return lambda driver: driver.enable()
    if command.command_type == "HASHING_DISABLE":
        return lambda driver: driver.disable()
    if command.command_type == "POOL_SET":
        return _pool_operation(params)
    if command.command_type == "SET_FAN":
        percent = _whole(params, "speed", 0, 100)
        return lambda driver: driver.set_fan(percent)
    if command.command_type == "SET_FREQUENCY":
        megahertz = _whole(params, "frequency", 1, 10_000)
        return lambda driver: driver.set_frequency(megahertz)
    if command.command_type == "POWER_MODE":
        mode = params.get("mode", params.get("power_mode"))
        if mode not in POWER_MODES:
            raise WrongParameter(f"mode: expected one of {', '.join(POWER_MODES)}")
        return lambda driver: driver.set_power_mode(str(mode))
    raise WrongParameter(f"command_type: {command.command_type} is not known to this collector")


def _pool_operation(params: dict[str, Any]) -> Operation:
    if "pool_id" in params:
        number = _whole(params, "pool_id", 0, 1000)
        return lambda driver: driver.select_pool(number)
    texts = [params.get(name, "") for name in ("pool_url", "pool_user", "pool_password")]
    if not all(isinstance(text, str) for text in texts) or not texts[0]:
        raise WrongParameter("pool_url: expected a text; or pool_id, a number")
    pool = Pool(*texts)
    return lambda driver: driver.set_pool(pool)


def _whole(params: dict[str, Any], name: str, least: int, most: int) -> int:
    value = params.get(name)
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
        raise WrongParameter(f"{name}: expected a number from {least} to {most}")
    return value


def _delay(command: Command) -> int:
    if command.command_type not in RESTARTING or command.params.get("delay_sec") is None:
        return 0
    return _whole(command.params, "delay_sec", 0, DELAY_SECONDS_MAX)


def _read(miner: Miner) -> Optional[Reading]:
    try:
        return miner.driver.read()
    except MinerError:
        # The operation succeeded; only the snapshot is missing.
        return None


def _outcome(
    miner: Miner, status: str, code: str, message: str, before: Optional[Reading], after: Optional[Reading] = None
) -> Outcome:
    return Outcome(miner.id, status, code, message, *(_snapshot(reading) for reading in (before, after)))


def _snapshot(reading: Optional[Reading]) -> Optional[dict[str, Any]]:
    return None if reading is None else reading.measurements()


def _single(outcome: Outcome) -> Result:
    code: Any = 0 if outcome.status == SUCCEEDED else outcome.code
    return Result(outcome.status, code, outcome.message, outcome.before, outcome.after)


def _combined(outcomes: Sequence[Outcome]) -> Result:
    """One result for several miners: the worst that may still change decides."""
    failures = [outcome for outcome in outcomes if outcome.status != SUCCEEDED]
    before = {str(outcome.miner_id): outcome.before for outcome in outcomes if outcome.before is not None}
    after = {str(outcome.miner_id): outcome.after for outcome in outcomes if outcome.after is not None}
    if not failures:
        return Result(SUCCEEDED, 0, f"{len(outcomes)} miners", before, after)
    # A retry can help while one miner has failed. It goes only to the miners that have not done it.
    status = next(each for each in (FAILED, DEFERRED, REJECTED) if any(found.status == each for found in failures))
    code = next(found.code for found in failures if found.status == status)
    listed = "; ".join(f"{found.miner_id} {found.code}: {found.message}" for found in failures)
    message = f"{len(outcomes) - len(failures)} of {len(outcomes)} miners did it. {listed}"
    return Result(status, code, message, before, after)
