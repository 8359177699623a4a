import json

import pytest

from tests.cli.conftest import AddDevice, Restante


def test_send_puts_signal_into_outbox(restante: Restante, add_device: AddDevice) -> None:
    device = add_device("first")
    sent = restante.json("signal", "send", str(device), "install.updated", "--ref", '{"config_id": 5}')
    assert (sent["device_id"], sent["type"], sent["ref"]) == (device, "install.updated", {"config_id": 5})
    (row,) = restante.json("outbox", "list")
    assert (row["device_id"], row["event_kind"], row["status"]) == (device, "install.updated", "PENDING")
    assert json.loads(row["payload"]) == {name: sent[name] for name in ("type", "ts_ms", "ref")}


def test_ref_is_optional(restante: Restante, add_device: AddDevice) -> None:
    assert "on its way" in restante.ok("signal", "send", str(add_device("first")), "ping")


@pytest.mark.parametrize("ref", ["", "{", "[]", "1", '"x"', "NaN", "[" * 5000])
def test_ref_must_be_json_object(restante: Restante, add_device: AddDevice, ref: str) -> None:
    message = restante.error_line("signal", "send", str(add_device("first")), "ping", "--ref", ref)
    assert message == "ref: expected a JSON object"


def test_invalid_signal_is_refused(restante: Restante, add_device: AddDevice) -> None:
    device = str(add_device("first"))
    too_long = json.dumps({"x": "y" * 5000})
    assert restante.error_line("signal", "send", device, "ping", "--ref", too_long).startswith("ref: expected at most")
    assert restante.error_line("signal", "send", device, "").startswith("type: expected")
    assert restante.json("outbox", "list") == []


def test_unknown_device_is_refused(restante: Restante) -> None:
    assert restante.error_line("signal", "send", "7", "ping") == "there is no such device"


def test_revoked_device_is_refused(restante: Restante, add_device: AddDevice) -> None:
    device = add_device("first")
    restante.ok("device", "revoke", str(device))
    assert "is revoked" in restante.error_line("signal", "send", str(device), "ping")
    assert restante.json("outbox", "list") == []
