"""Samples a hot path with py-spy, and prints the functions with most time of their own.

    idle-poll, event-poll     a server under load, sampled from outside
    fan-out, publishing       a process that does the work of the benchmark with that name

A sample counts only if the thread was running code of the server. Time in the kernel and in libraries belongs to the
Python function that called them: reading and writing sockets is `Runner.run`, the event loop. The share of the kernel
is printed beside it, from the CPU times of the process.
"""

import os
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from bench.data import event_data
from bench.polls.idle_poll import warm_server
from bench.tools.load import load
from bench.tools.processes import SERVER_CORE, free_port, pinned, process_stat, serve_command

SECONDS = 5
RATE = 500
SHOWN = 15
# Threads that wait here for work look busy to the sampler now and then.
_WAITING = ("ThreadWaker.wait ", "Condition.wait ", "_worker ", "EpollSelector.select ")
_PY_SPY = str(Path(sys.executable).with_name("py-spy"))
_NO_LIMITS = ("--events-poll-rate-per-second", "100000", "--events-poll-burst", "1000000", "--log-level", "error")


def idle_poll(raw: Path) -> str:
    with tempfile.TemporaryDirectory() as name, warm_server(Path(name), 10_000, 10_000) as (pid, port, tokens):
        return _sample_server(raw, pid, lambda seconds: load(port, tokens, seconds).requests)


def event_poll(raw: Path) -> str:
    with tempfile.TemporaryDirectory() as name:
        data = event_data.prepare(Path(name) / "data", 1000, 0)
        tokens = Path(name) / "tokens"
        tokens.write_text("\n".join(data.tokens) + "\n")
        port = free_port()
        command = serve_command(data.folder.path, port, *_NO_LIMITS)
        with pinned(SERVER_CORE, command, port, log=Path(name) / "log") as pid:
            return _sample_server(
                raw, pid, lambda seconds: load(port, tokens, seconds, "/events", "event_poll.lua").requests
            )


def fan_out(raw: Path) -> str:
    return _sample_program(
        raw, "from bench.fan_out.publishing import *; logs.configure('json', 'error'); send_signal()"
    )


def publishing(raw: Path) -> str:
    return _sample_program(raw, "from bench.delivery.delivery import *; publishing()")


PROFILES: dict[str, Callable[[Path], str]] = {
    "idle-poll": idle_poll,
    "event-poll": event_poll,
    "fan-out": fan_out,
    "publishing": publishing,
}


def main(names: list[str]) -> None:
    unknown = [name for name in names if name not in PROFILES]
    if unknown or not names:
        sys.exit(f"usage: python -m bench profile NAME …; available: {', '.join(PROFILES)}")
    for name in names:
        with tempfile.TemporaryDirectory() as folder:
            raw = Path(folder) / "raw"
            print(f"{name}: {PROFILES[name](raw)}")
            _print_samples(raw.read_text())


def _sample_server(raw: Path, pid: int, send: Callable[[int], int]) -> str:
    # Every token becomes known.
    send(3)
    before = _cpu_ticks(pid)
    sampler = subprocess.Popen(_record(raw, "--pid", str(pid), "--duration", str(SECONDS)), stdout=subprocess.DEVNULL)
    requests = send(SECONDS)
    sampler.wait(timeout=60)
    user, kernel = (after - earlier for after, earlier in zip(_cpu_ticks(pid), before, strict=True))
    each = (user + kernel) / os.sysconf("SC_CLK_TCK") / requests * 1e6
    return f"{each:.1f} µs of CPU a request, {kernel / (user + kernel):.0%} of it in the kernel"


def _sample_program(raw: Path, code: str) -> str:
    subprocess.run(_record(raw, "--", sys.executable, "-c", code), check=True, stdout=subprocess.DEVNULL)
    return "the work of the server in this process"


def _record(raw: Path, *arguments: str) -> list[str]:
    return [_PY_SPY, "record", "--rate", str(RATE), "--format", "raw", "--output", str(raw), *arguments]


def _cpu_ticks(pid: int) -> tuple[int, int]:
    """CPU time in user space and in the kernel."""
    user, kernel = map(int, process_stat(pid)[11:13])
    return user, kernel


def _is_work(stack: str) -> bool:
    """Whether the sample is of the server's work, not of waiting, of imports or of the benchmark itself."""
    innermost = stack.rpartition(";")[2]
    return "restante/" in stack and "importlib" not in stack and not innermost.startswith(_WAITING)


def _print_samples(text: str) -> None:
    """Lines of `frame;frame;frame count`, the innermost frame last."""
    own: Counter[str] = Counter()
    total: Counter[str] = Counter()
    for line in text.splitlines():
        stack, _, count = line.rpartition(" ")
        if not _is_work(stack):
            continue
        frames = [frame.rpartition(":")[0] + ")" for frame in stack.split(";")]
        own[frames[-1]] += int(count)
        for frame in set(frames):
            total[frame] += int(count)
    samples = sum(own.values())
    print(f"  {'own':>6} {'with calls':>10}   function ({samples} samples)")
    for frame, number in own.most_common(SHOWN):
        print(f"  {number / samples:>6.1%} {total[frame] / samples:>10.1%}   {frame}")
