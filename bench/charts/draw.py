"""`python -m bench charts`: bench/results/peers.json as pictures in docs/pictures. Draws only, measures nothing."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from bench.charts.svg import Bar, bar_chart, line_charts

ROOT = Path(__file__).parent.parent.parent
RESULTS = ROOT / "bench" / "results" / "peers.json"
PICTURES = ROOT / "docs" / "pictures"
OWN = "Restante"


def charts() -> dict[str, float]:
    """Draw all pictures; the size of each in bytes."""
    PICTURES.mkdir(exist_ok=True)
    drawn = pictures(json.loads(RESULTS.read_text()))
    for name, text in drawn.items():
        (PICTURES / name).write_text(text)
    return {f"docs/pictures/{name}, bytes": len(text.encode()) for name, text in drawn.items()}


def pictures(results: Mapping[str, Any]) -> dict[str, str]:
    """The pictures by file name."""
    return {
        "idle-poll.svg": _idle_poll(results),
        "wake.svg": _wake(results),
        "leases.svg": _leases(results),
        "scaling.svg": _scaling(results),
    }


def _idle_poll(results: Mapping[str, Any]) -> str:
    bars = [_bar(row, row["per_second"]) for row in _sorted(results["idle_poll"], "per_second")]
    how = (
        "A device asks whether there is something new, and there is not. 64 open connections, one core for the server."
    )
    return bar_chart(
        "Idle polls per second", "/s", bars, [how, _conditions(results, ("nginx", "Redis", "FastAPI", "goosebit"))]
    )


def _wake(results: Mapping[str, Any]) -> str:
    rows = sorted(results["wake"], key=lambda row: float(row["milliseconds"]))
    bars = [_bar(row, row["milliseconds"]) for row in rows]
    rates = ", ".join(f"{row['name']} {row['wakes_per_second']:,.0f}" for row in rows)
    how = (
        "From sending a publish to the response of the device's parked poll, median of 100; shorter is better."
        " Restante collects signals for 5 ms of it. A publish for each of 1,000 parked polls wakes, per second: "
        f"{rates}."
    )
    title = "From publish to the device, in milliseconds"
    return bar_chart(title, "ms", bars, [how, _conditions(results, ("nginx", "Redis", "FastAPI"))])


def _leases(results: Mapping[str, Any]) -> str:
    rows = results["leases"]
    lines = {row["name"]: {int(width): rate for width, rate in row["rates"].items()} for row in rows}
    embedded = ("Restante, embedded", "FastAPI + Redis", "beanstalkd")
    panels = {
        "workers, over HTTP or its own protocol": {name: lines[name] for name in embedded if name in lines},
        "workers, on PostgreSQL": {name: points for name, points in lines.items() if name not in embedded},
    }
    durability = "; ".join(f"{row['name']}: {row['durability']}" for row in rows)
    named = ("Redis", "FastAPI", "beanstalkd", "procrastinate", "pgqueuer", "psycopg")
    caption = [f"One job at a time for each worker. {durability}.", _conditions(results, named)]
    return line_charts("Leased and acknowledged per second", panels, caption, "pairs/s")


def _scaling(results: Mapping[str, Any]) -> str:
    panels = {
        axis: {OWN: {int(count): rate for count, rate in points.items()}} for axis, points in results["scaling"].items()
    }
    how = (
        "Idle polls of one process on one core by number of known devices and of connections. By number of workers: on"
        " PostgreSQL, on all cores but the client's; with two cores the client shares one of them."
    )
    return line_charts("Idle polls per second, by size", panels, [how, _conditions(results, ())], "polls/s")


def _bar(row: Mapping[str, Any], value: float) -> Bar:
    return Bar(row["name"], value, row["durability"], is_own=row["name"] == OWN)


def _sorted(rows: Sequence[Mapping[str, Any]], key: str) -> list[Mapping[str, Any]]:
    return sorted(rows, key=lambda row: float(row[key]), reverse=True)


def _conditions(results: Mapping[str, Any], named: Sequence[str]) -> str:
    versions = "".join(f", {name} {results['versions'][name]}" for name in named)
    note = f" {results['note']}" if results.get("note") else ""
    return f"{results['taken_at'][:10]}: {results['machine']}{versions}.{note}"
