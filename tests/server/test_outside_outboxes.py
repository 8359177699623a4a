"""The whole way: an application's commit in a database of its own, a device's poll at the server."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import httpx
import pytest

from restante.database.outside import OutsideAddress
from restante.outbox import enqueue
from restante.server.outside_setting_kinds import OutsideAddresses
from tests.delivery.outside import Place, in_sqlite
from tests.delivery.rows import add_device, published
from tests.server.serving import Served


@pytest.fixture
def shop(tmp_path: Path) -> Place:
    return in_sqlite(tmp_path)


@pytest.fixture
def served(tmp_path: Path, shop: Place) -> Iterator[Served]:
    gone = OutsideAddress("gone", "sqlite", "sqlite:///nowhere/at/all.db")
    served = Served(tmp_path, outbox=OutsideAddresses([shop.address, gone]), outbox_interval_seconds=0.05)
    yield served
    served.close()


def test_a_signal_committed_elsewhere_reaches_the_devices_log(served: Served, shop: Place) -> None:
    device_id = served.node.database.write_now(add_device)
    with closing(shop.connect()) as conn:
        enqueue(conn, device_id, {"type": "x", "ref": {"about": "a tariff"}})
        conn.commit()
    served.until(lambda: served.node.poll.bell.known.get(device_id) is not None)
    assert published(served.node.database, device_id) == ["a tariff"]
    served.until(lambda: delivered(served, shop) == 1)
    assert shop.rows() == [(1, "DELIVERED")]


def delivered(served: Served, shop: Place) -> float:
    values = served.node.outside_outboxes.values()
    return next(
        value for metric, name, value in values if (metric, name) == ("restante_outbox_source_delivered", "shop")
    )


def test_one_that_is_away_is_said_and_is_no_reason_not_to_serve(served: Served) -> None:
    served.until(lambda: served.node.outside_outboxes.away() == ["gone"])
    base = f"http://127.0.0.1:{served.fast_port}"
    ready = httpx.get(f"{base}/readyz").json()["data"]
    assert (ready["status"], ready["away"]) == ("ready", ["outbox gone"])
    metrics = httpx.get(f"{base}/metrics").text
    assert 'restante_outbox_source_up{source="gone"} 0.0' in metrics
    assert 'restante_outbox_source_up{source="shop"} 1.0' in metrics


def test_each_is_a_source_and_a_service(served: Served) -> None:
    assert list(served.node.sources()) == ["server", "shop", "gone"]
    assert [service.name for service in served.node.outside_outboxes.services()] == [
        "dispatcher of shop",
        "dispatcher of gone",
    ]
