import asyncio
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.exposition import generate_latest
from prometheus_client.parser import text_string_to_metric_families

from restante.server import colleagues
from restante.server.colleagues import Colleagues, Place, merged


def metrics_of(count: int) -> bytes:
    registry = CollectorRegistry()
    Counter("calls", "How often {it} was called.", ["route"], registry=registry).labels('a{"b c"}').inc(count)
    Gauge("parked", "Who waits.", registry=registry).set(count)
    Histogram("took_seconds", "How long.", registry=registry, buckets=[1]).observe(count)
    return generate_latest(registry)


def values(text: bytes) -> dict[tuple[str, ...], float]:
    """Every sample by its name and labels; the parser refuses what Prometheus would."""
    return {
        (sample.name, *(f"{name}={value}" for name, value in sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text.decode())
        for sample in family.samples
    }


def test_each_sample_carries_its_workers_number() -> None:
    text = merged({2: metrics_of(7), 1: metrics_of(3)})
    found = values(text)
    assert found["calls_total", 'route=a{"b c"}', "worker=1"] == 3
    assert found["calls_total", 'route=a{"b c"}', "worker=2"] == 7
    assert found["parked", "worker=2"] == 7
    assert found["took_seconds_bucket", "le=1.0", "worker=1"] == 0
    assert found["restante_worker_up", "worker=1"] == 1
    assert all(text.count(f"# TYPE {name} ".encode()) == 1 for name in ("calls_total", "parked", "took_seconds"))


def test_one_that_does_not_answer_is_shown_as_not_up() -> None:
    found = values(merged({1: metrics_of(1), 2: None}))
    assert found["restante_worker_up", "worker=2"] == 0
    assert ("parked", "worker=2") not in found


async def test_whoever_is_asked_gives_out_everybodys(tmp_path: Path) -> None:
    first, second = (Colleagues(Place(tmp_path, number, 2)) for number in (1, 2))

    async def render() -> bytes:
        return metrics_of(5)

    # What a worker that was killed leaves behind does not stand in the way.
    Path(first.place.socket(1)).touch()
    async with first.answering(render):
        found = values(await second.everyones(metrics_of(6)))
        assert (found["parked", "worker=1"], found["parked", "worker=2"]) == (5, 6)
    assert values(await second.everyones(metrics_of(6)))["restante_worker_up", "worker=1"] == 0


async def test_one_that_hangs_is_not_waited_for_long(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(colleagues, "ANSWER_SECONDS", 0.05)
    first, second = (Colleagues(Place(tmp_path, number, 2)) for number in (1, 2))
    is_over = asyncio.Event()

    async def hang() -> bytes:
        await is_over.wait()
        return b""

    async with first.answering(hang):
        assert values(await second.everyones(b""))["restante_worker_up", "worker=1"] == 0
        is_over.set()
