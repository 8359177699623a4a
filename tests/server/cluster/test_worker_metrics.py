import asyncio
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.exposition import generate_latest
from prometheus_client.parser import text_string_to_metric_families

from restante.server.cluster import worker_metrics
from restante.server.cluster.worker_metrics import WorkerAddress, WorkerMetrics, merged


def metrics_of(count: int) -> bytes:
    registry = CollectorRegistry()
    Counter("calls", "Number of {calls}.", ["route"], registry=registry).labels('a{"b c"}').inc(count)
    Gauge("parked", "Parked polls.", registry=registry).set(count)
    Histogram("took_seconds", "Duration.", registry=registry, buckets=[1]).observe(count)
    return generate_latest(registry)


def values(text: bytes) -> dict[tuple[str, ...], float]:
    """The value of each sample, by its name and labels. The parser refuses text that Prometheus would refuse."""
    return {
        (sample.name, *(f"{name}={value}" for name, value in sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text.decode())
        for sample in family.samples
    }


def test_each_sample_is_labelled_with_the_number_of_its_worker() -> None:
    text = merged({2: metrics_of(7), 1: metrics_of(3)})
    found = values(text)
    assert found["calls_total", 'route=a{"b c"}', "worker=1"] == 3
    assert found["calls_total", 'route=a{"b c"}', "worker=2"] == 7
    assert found["parked", "worker=2"] == 7
    assert found["took_seconds_bucket", "le=1.0", "worker=1"] == 0
    assert found["restante_worker_up", "worker=1"] == 1
    assert all(text.count(f"# TYPE {name} ".encode()) == 1 for name in ("calls_total", "parked", "took_seconds"))


def test_worker_that_does_not_respond_is_shown_as_not_up() -> None:
    found = values(merged({1: metrics_of(1), 2: None}))
    assert found["restante_worker_up", "worker=2"] == 0
    assert ("parked", "worker=2") not in found


async def test_any_worker_returns_the_metrics_of_all_workers(tmp_path: Path) -> None:
    first, second = (WorkerMetrics(WorkerAddress(tmp_path, number, 2)) for number in (1, 2))

    async def render() -> bytes:
        return metrics_of(5)

    # A killed worker leaves its socket file behind; the next one must replace it.
    Path(first.address.socket(1)).touch()
    async with first.serving(render):
        found = values(await second.of_all_workers(metrics_of(6)))
        assert (found["parked", "worker=1"], found["parked", "worker=2"]) == (5, 6)
    assert values(await second.of_all_workers(metrics_of(6)))["restante_worker_up", "worker=1"] == 0


async def test_worker_that_hangs_is_shown_as_not_up_after_a_timeout(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker_metrics, "RESPONSE_SECONDS", 0.05)
    first, second = (WorkerMetrics(WorkerAddress(tmp_path, number, 2)) for number in (1, 2))
    is_released = asyncio.Event()

    async def hang() -> bytes:
        await is_released.wait()
        return b""

    async with first.serving(hang):
        assert values(await second.of_all_workers(b""))["restante_worker_up", "worker=1"] == 0
        is_released.set()
