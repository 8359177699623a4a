"""A simulated miner that serves the CGMiner API on a loopback port, for tests and demonstrations.

    restante-simulated-miners --count 3 --inventory inventory.toml --faults 30

Its temperature follows what it does: hashing at a higher frequency heats it, fans cool it, and a seeded noise moves it.
A miner above `FAILURE_TEMPERATURE` stops answering until it has cooled down. The time is an argument (`clock`), so a
test decides how fast it heats up; the same seed and the same times give the same readings.

With `--faults` a miner breaks from time to time: its fans stall, or it runs too fast. It heats up, perhaps until it
stops answering, and is repaired two minutes later.

`executed` holds every command that changed it, in order.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import random
import re
import socket
import socketserver
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Callable, Optional

BOARDS = 3
AMBIENT = 25.0
FAILURE_TEMPERATURE = 110.0
RECOVERY_TEMPERATURE = 60.0
# The share of the distance to the final temperature that is left after a second.
INERTIA = 0.97
NOISE = 0.3
WATTS_PER_MEGAHERTZ = 6.0
TERAHASH_PER_MEGAHERTZ = 0.2
# How long a fault lasts. The fans stall at the first value; a miner that runs too fast has the second and the third.
FAULT_SECONDS = 120.0
STALLED_FAN_PERCENT = 15
FAST_MEGAHERTZ, FAST_FAN_PERCENT = 720, 25
READING = ("version", "summary", "devs", "stats", "pools", "privileged")
_UNESCAPED_COMMA = re.compile(r"(?<!\\),")

SUCCESS, INFO, ERROR = "S", "I", "E"


@dataclass
class SimulatedMiner:
    """The machine: what it measures, and what its commands do. Not thread-safe: the server below locks it."""

    seed: int = 0
    clock: Callable[[], float] = time.monotonic
    frequency: int = 500
    fan_percent: int = 60
    work_mode: int = 1
    ambient: float = AMBIENT
    temperature: float = 60.0
    boards: list[bool] = field(default_factory=lambda: [True] * BOARDS)
    pools: list[dict[str, Any]] = field(default_factory=lambda: [_pool("stratum+tcp://pool.example:3333", "farm.1")])
    executed: list[tuple[str, str]] = field(default_factory=list)
    is_failed: bool = False
    restart_seconds: float = 0.0
    # A test sets this instead of waiting until the miner has this temperature.
    held_temperature: Optional[float] = None

    def __post_init__(self) -> None:
        self._random = random.Random(self.seed)  # noqa: S311
        self._started = self._changed = self.clock()
        self._down_until = self._started

    # Physics

    def advance(self) -> None:
        """Bring the temperature to now."""
        now = self.clock()
        seconds, self._changed = now - self._changed, now
        left = INERTIA ** max(0.0, seconds)
        final = self._final_temperature()
        noise = self._random.uniform(-NOISE, NOISE) * (1 - left)
        self.temperature = final + (self.temperature - final) * left + noise
        if self.held_temperature is not None:
            self.temperature = self.held_temperature
        if self.temperature >= FAILURE_TEMPERATURE:
            self.is_failed = True
        elif self.is_failed and self.temperature <= RECOVERY_TEMPERATURE:
            self.is_failed = False
            self._started = now

    def _final_temperature(self) -> float:
        if self.is_failed or not any(self.boards):
            return self.ambient
        heat = 0.14 * self.frequency * sum(self.boards) / BOARDS * (0.8, 1.0, 1.2)[self.work_mode]
        return self.ambient + heat * (1.3 - 0.8 * self.fan_percent / 100)

    @property
    def is_answering(self) -> bool:
        return not self.is_failed and self.clock() >= self._down_until

    # Commands

    def answer(self, command: str, parameter: str) -> dict[str, Any]:
        """Carry out a command and return the reply. Raises `Restarting` for those that end the program."""
        self.advance()
        if command in READING:
            return getattr(self, f"_answer_{command}")()  # type: ignore[no-any-return]
        handler = getattr(self, f"_do_{command}", None)
        if handler is None:
            return _status(ERROR, 14, "Invalid command")
        # Before the reply: a caller that has the reply finds it here.
        self.executed.append((command, parameter))
        reply: dict[str, Any] = handler(parameter)
        return reply

    def _answer_version(self) -> dict[str, Any]:
        version = {"CGMiner": "4.11.1", "API": "3.7", "Type": "Simulated miner"}
        return {**_status(SUCCESS, 22, "CGMiner versions"), "VERSION": [version], "id": 1}

    def _answer_privileged(self) -> dict[str, Any]:
        return _status(SUCCESS, 46, "Privileged access OK")

    def _answer_summary(self) -> dict[str, Any]:
        share = sum(self.boards) / BOARDS
        ghs = round(self.frequency * TERAHASH_PER_MEGAHERTZ * 1000 * share, 2)
        power = round(self.frequency * WATTS_PER_MEGAHERTZ * share + 60, 1)
        row = {"Elapsed": int(self.clock() - self._started), "GHS 5s": ghs, "GHS av": ghs, "Power": power}
        return {**_status(SUCCESS, 11, "Summary"), "SUMMARY": [row], "id": 1}

    def _answer_devs(self) -> dict[str, Any]:
        rows = [
            {"ASC": number, "Enabled": "Y" if is_on else "N", "Status": "Alive", "Temperature": self._board(number)}
            for number, is_on in enumerate(self.boards)
        ]
        return {**_status(SUCCESS, 9, f"{BOARDS} ASC(s)"), "DEVS": rows, "id": 1}

    def _answer_stats(self) -> dict[str, Any]:
        values: dict[str, Any] = {"STATS": 1, "frequency": self.frequency, "temp_num": BOARDS}
        for number in range(BOARDS):
            values[f"temp{number + 1}"] = self._board(number)
            values[f"fan{number + 1}"] = 60 * self.fan_percent
        return {**_status(SUCCESS, 70, "CGMiner stats"), "STATS": [{"Type": "Simulated"}, values], "id": 1}

    def _board(self, number: int) -> float:
        return round(self.temperature - number, 1)

    def _answer_pools(self) -> dict[str, Any]:
        rows = [{"POOL": number, "Priority": number, **pool} for number, pool in enumerate(self.pools)]
        return {**_status(SUCCESS, 7, f"{len(rows)} Pool(s)"), "POOLS": rows, "id": 1}

    def _do_restart(self, _parameter: str) -> dict[str, Any]:
        self._started = self.clock()
        self._down_until = self._started + self.restart_seconds
        raise Restarting

    def _do_ascenable(self, parameter: str) -> dict[str, Any]:
        return self._switch(parameter, is_on=True)

    def _do_ascdisable(self, parameter: str) -> dict[str, Any]:
        return self._switch(parameter, is_on=False)

    def _switch(self, parameter: str, *, is_on: bool) -> dict[str, Any]:
        if not parameter.isdigit() or int(parameter) >= BOARDS:
            return _status(ERROR, 107, "Invalid ASC id")
        word = "enable" if is_on else "disable"
        if self.boards[int(parameter)] is is_on:
            return _status(INFO, 108 if is_on else 109, f"ASC {parameter} already {word}d")
        self.boards[int(parameter)] = is_on
        return _status(INFO, 110 if is_on else 111, f"ASC {parameter} sent {word} message")

    def _do_ascset(self, parameter: str) -> dict[str, Any]:
        _board, option, *values = (*parameter.split(","), "")
        value = int(values[0]) if values and values[0].lstrip("-").isdigit() else -1
        limits = {"freq": (100, 1000), "fan": (0, 100), "workmode": (0, 2), "reboot": (0, 0)}.get(option)
        if limits is None:
            return _status(ERROR, 120, f"ASC set failed: unknown option: {option}")
        if not limits[0] <= value <= limits[1]:
            return _status(ERROR, 120, f"ASC set failed: {option}: expected {limits[0]} to {limits[1]}")
        if option == "reboot":
            self.boards = [True] * BOARDS
            self._started = self.clock()
            self._down_until = self._started + self.restart_seconds
        else:
            name = {"freq": "frequency", "fan": "fan_percent", "workmode": "work_mode"}[option]
            setattr(self, name, value)
        return _status(SUCCESS, 119, "ASC set OK")

    def _do_addpool(self, parameter: str) -> dict[str, Any]:
        parts = [part.replace("\\,", ",").replace("\\\\", "\\") for part in _UNESCAPED_COMMA.split(parameter)]
        if len(parts) != 3:
            return _status(ERROR, 52, "Invalid addpool details")
        self.pools.append(_pool(parts[0], parts[1], is_active=False))
        return _status(SUCCESS, 55, f"Added pool {len(self.pools) - 1}")

    def _do_switchpool(self, parameter: str) -> dict[str, Any]:
        number = self._pool_number(parameter)
        if number is None:
            return _status(ERROR, 26, "Invalid pool id")
        for index, pool in enumerate(self.pools):
            pool["Stratum Active"] = index == number
        self.pools[number]["Status"] = "Alive"
        return _status(SUCCESS, 27, f"Switching to pool {number}")

    def _do_enablepool(self, parameter: str) -> dict[str, Any]:
        return self._set_pool_status(parameter, "Alive")

    def _do_disablepool(self, parameter: str) -> dict[str, Any]:
        return self._set_pool_status(parameter, "Disabled")

    def _set_pool_status(self, parameter: str, status: str) -> dict[str, Any]:
        number = self._pool_number(parameter)
        if number is None:
            return _status(ERROR, 26, "Invalid pool id")
        self.pools[number]["Status"] = status
        return _status(SUCCESS, 47 if status == "Alive" else 48, f"Pool {number} is {status}")

    def _do_removepool(self, parameter: str) -> dict[str, Any]:
        number = self._pool_number(parameter)
        if number is None:
            return _status(ERROR, 26, "Invalid pool id")
        if self.pools[number]["Stratum Active"]:
            return _status(ERROR, 67, f"Cannot remove active pool {number}")
        del self.pools[number]
        return _status(SUCCESS, 68, f"Removed pool {number}")

    def _pool_number(self, parameter: str) -> Optional[int]:
        is_known = parameter.isdigit() and int(parameter) < len(self.pools)
        return int(parameter) if is_known else None


class Restarting(Exception):
    """The miner's program ends instead of answering."""


class SimulatedMinerServer:
    """A simulated miner behind a TCP port of the loopback interface."""

    def __init__(self, miner: SimulatedMiner, port: int = 0) -> None:
        self.miner = miner
        self.lock = threading.Lock()
        # A test sets this to lose answers: the command is carried out, and the connection ends without a reply.
        self.is_losing_answers = False
        outer = self

        class Handler(socketserver.BaseRequestHandler):
            def handle(self) -> None:
                with contextlib.suppress(OSError):
                    outer._serve(self.request)

        class Server(socketserver.ThreadingTCPServer):
            allow_reuse_address = True
            daemon_threads = True

        self._server = Server(("127.0.0.1", port), Handler)
        self.port: int = self._server.server_address[1]
        self._thread = threading.Thread(target=self._accept, daemon=True)
        self._is_ended = False

    def __enter__(self) -> SimulatedMinerServer:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._is_ended = True
        # Ends the wait of the thread for the next connection.
        with contextlib.suppress(OSError):
            socket.create_connection(("127.0.0.1", self.port), 10).close()
        self._thread.join()
        self._server.server_close()

    def _accept(self) -> None:
        while not self._is_ended:
            self._server.handle_request()

    def executed(self) -> list[tuple[str, str]]:
        """The commands that changed the miner, in order."""
        with self.lock:
            return list(self.miner.executed)

    def _serve(self, connection: socket.socket) -> None:
        connection.settimeout(10)
        try:
            request = json.loads(connection.recv(65_536))
            command, parameter = str(request["command"]), str(request.get("parameter", ""))
        except (ValueError, KeyError, TypeError):
            connection.sendall(json.dumps(_status(ERROR, 23, "Invalid JSON")).encode() + b"\0")
            return
        with self.lock:
            self.miner.advance()
            if not self.miner.is_answering:
                return
            try:
                reply = json.dumps(self.miner.answer(command, parameter)).encode()
            except Restarting:
                # As CGMiner does it: not JSON, and no status.
                reply = b'{"RESTART"'
        if not self.is_losing_answers:
            connection.sendall(reply + b"\0")


class Faults:
    """Breaks one miner after another, and repairs each after `FAULT_SECONDS`. The same seed breaks the same ones."""

    def __init__(
        self, servers: Sequence[SimulatedMinerServer], seed: int = 0, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._servers = servers
        self._random = random.Random(seed)  # noqa: S311
        self._clock = clock
        self._repairs: list[tuple[float, SimulatedMinerServer]] = []
        for server in servers:
            with server.lock:
                server.miner.ambient = self._random.uniform(14.0, 24.0)

    def step(self) -> None:
        """Repair the miners whose time is over, and break another one."""
        now = self._clock()
        working = [server for server in self._servers if server not in [broken for _, broken in self._repairs]]
        for repair_at, server in list(self._repairs):
            if repair_at <= now:
                self._repairs.remove((repair_at, server))
                self._set(server, SimulatedMiner.frequency, SimulatedMiner.fan_percent)
        if not working:
            return
        server = self._random.choice(working)
        if self._random.random() < 0.6:
            self._set(server, SimulatedMiner.frequency, STALLED_FAN_PERCENT)
        else:
            self._set(server, FAST_MEGAHERTZ, FAST_FAN_PERCENT)
        self._repairs.append((now + FAULT_SECONDS, server))

    @staticmethod
    def _set(server: SimulatedMinerServer, frequency: int, fan_percent: int) -> None:
        with server.lock:
            server.miner.advance()
            server.miner.frequency, server.miner.fan_percent = frequency, fan_percent


def _status(status: str, code: int, message: str) -> dict[str, Any]:
    row = {"STATUS": status, "When": int(time.time()), "Code": code, "Msg": message, "Description": "simulated"}
    return {"STATUS": [row], "id": 1}


def _pool(url: str, user: str, *, is_active: bool = True) -> dict[str, Any]:
    return {"URL": url, "User": user, "Status": "Alive", "Stratum Active": is_active}


@contextlib.contextmanager
def simulated_miners(count: int, seed: int = 0, first_port: int = 0) -> Iterator[list[SimulatedMinerServer]]:
    """Several simulated miners, each on its own port."""
    with contextlib.ExitStack() as stack:
        yield [
            stack.enter_context(
                SimulatedMinerServer(SimulatedMiner(seed + number), first_port + number if first_port else 0)
            )
            for number in range(count)
        ]


def inventory_text(servers: Sequence[SimulatedMinerServer], first_id: int = 1) -> str:
    """An inventory file of these miners."""
    return "".join(
        f'[[miners]]\nid = {first_id + number}\nhost = "127.0.0.1"\nport = {server.port}\n\n'
        for number, server in enumerate(servers)
    )


def main(arguments: Sequence[str] | None = None) -> None:
    """Run simulated miners until the process ends."""
    parser = argparse.ArgumentParser(description="Simulated miners with the CGMiner API on loopback ports.")
    parser.add_argument("--count", type=int, default=1, help="number of miners")
    parser.add_argument("--seed", type=int, default=0, help="seed of the noise")
    parser.add_argument("--port", type=int, default=0, help="first port; without it free ports")
    parser.add_argument("--first-id", type=int, default=1, help="id of the first miner in the inventory")
    parser.add_argument("--inventory", type=Path, help="write an inventory file of these miners")
    parser.add_argument("--faults", type=float, metavar="SECONDS", help="break a miner every so often")
    given = parser.parse_args(arguments)
    with simulated_miners(given.count, given.seed, given.port) as servers:
        text = inventory_text(servers, given.first_id)
        if given.inventory is not None:
            given.inventory.write_text(text, encoding="utf-8")
        sys.stdout.write(text)
        sys.stdout.flush()
        faults = None if given.faults is None else Faults(servers, given.seed)
        with contextlib.suppress(KeyboardInterrupt):
            while not threading.Event().wait(given.faults):
                if faults is not None:
                    faults.step()


if __name__ == "__main__":
    main()
