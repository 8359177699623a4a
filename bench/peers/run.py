"""Runs every comparison, and writes bench/results/peers.json. `python -m bench charts` draws it."""

import json
import os
import tempfile
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from bench.peers import leases, polls, scaling, servers
from bench.tools.machine import machine

RESULTS = Path(__file__).parent.parent / "results" / "peers.json"
DEVICES = 20_000
GOOSEBIT_DEVICES = 1000


def peers() -> dict[str, float]:
    idle, woken = _polls()
    results = {
        "machine": machine(),
        "taken_at": datetime.now(UTC).isoformat(timespec="seconds"),
        # For example that other programs ran beside it.
        "note": os.environ.get("BENCH_NOTE", ""),
        "versions": servers.versions(),
        "idle_poll": idle,
        "wake": woken,
        "leases": [*leases.over_http(), *leases.on_postgres(), *leases.with_beanstalkd()],
        "scaling": {
            "devices": scaling.by_devices(),
            "connections": scaling.by_connections(),
            "workers": scaling.by_workers(),
        },
    }
    RESULTS.write_text(json.dumps(results, indent=2, ensure_ascii=False) + "\n")
    return _figures(results)


def _polls() -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    with tempfile.TemporaryDirectory() as name, ExitStack() as opened:
        folder = Path(name)
        own = opened.enter_context(servers.restante(folder, DEVICES))
        devices = [str(number) for number in range(1, DEVICES + 1)]
        others = [
            opened.enter_context(servers.static_nginx(folder, own.tokens)),
            opened.enter_context(servers.nchan(folder, own.tokens)),
            opened.enter_context(servers.fastapi_redis(folder, own.tokens, devices)),
            opened.enter_context(servers.goosebit(folder, GOOSEBIT_DEVICES)),
        ]
        found = [own, *others]
        return polls.idle(found, folder), [polls.wake(server) for server in found if server.wait_path is not None]


def _figures(results: dict[str, Any]) -> dict[str, float]:
    figures: dict[str, float] = {}
    for row in results["idle_poll"]:
        figures[f"idle polls/s, {row['name']}"] = row["per_second"]
        figures[f"  µs of CPU each, {row['name']}"] = row["cpu_microseconds"]
    for row in results["wake"]:
        figures[f"ms from publish to response, {row['name']}"] = row["milliseconds"]
        figures[f"  woken polls/s, {row['name']}"] = row["wakes_per_second"]
    for row in results["leases"]:
        for width, rate in row["rates"].items():
            figures[f"pairs/s, {width} workers, {row['name']}"] = rate
    for name, rates in results["scaling"].items():
        figures |= {f"idle polls/s, {count:,} {name}": rate for count, rate in rates.items()}
    return figures
