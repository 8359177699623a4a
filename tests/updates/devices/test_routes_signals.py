from typing import Any

import pytest

from restante.updates.devices.routes_signals import SignalRequest, send_signal
from tests.conftest import START_MS
from tests.updates.updates_fixture import DeviceFleet, EmitRefused, UpdatesApi, refuse_to_emit


async def test_application_sends_a_signal(api: UpdatesApi, fleet: DeviceFleet) -> None:
    device = fleet.add_device()
    response = await api.call("POST", f"/devices/{device.id}/signals", {"type": "my.app", "ref": {"n": 1}})
    assert response.status_code == 202
    assert response.json() == {"data": {"device_id": device.id, "type": "my.app", "ts_ms": START_MS}}
    assert fleet.signals(device) == [{"type": "my.app", "ref": {"n": 1}}]


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"ref": {}}, "type"),
        ({"type": "", "ref": {}}, "type"),
        ({"type": "x" * 129, "ref": {}}, "type"),
        ({"type": "a\nb", "ref": {}}, "type"),
        ({"type": "a"}, "ref"),
        ({"type": "a", "ref": []}, "ref"),
        ({"type": "a", "ref": {"pad": "x" * 4096}}, "ref"),
        ({"type": "a", "ref": {}, "ts_ms": 1}, "ts_ms"),
    ],
)
async def test_bad_signals_are_refused(api: UpdatesApi, fleet: DeviceFleet, body: dict[str, Any], field: str) -> None:
    device = fleet.add_device()
    response = await api.call("POST", f"/devices/{device.id}/signals", body)
    assert response.status_code == 400
    assert response.json()["error"]["what"].startswith(f"{field}: ")
    assert fleet.signals(device) == []


async def test_signal_to_foreign_or_revoked_device_is_refused(api: UpdatesApi, fleet: DeviceFleet) -> None:
    foreign, revoked = fleet.add_device(fleet.other_id), fleet.add_device()
    fleet.revoke_device(revoked)
    body = {"type": "my.app", "ref": {}}
    assert (await api.call("POST", f"/devices/{foreign.id}/signals", body)).status_code == 404
    assert (await api.call("POST", "/devices/999/signals", body)).status_code == 404
    assert (await api.call("POST", f"/devices/{revoked.id}/signals", body)).status_code == 409
    assert fleet.signals(foreign) == fleet.signals(revoked) == []


def test_signal_is_emitted_in_the_transaction(fleet: DeviceFleet) -> None:
    device = fleet.add_device()
    with pytest.raises(EmitRefused):
        fleet.database.write_now(send_signal, refuse_to_emit, fleet.user_id, device.id, SignalRequest("a", {}))
