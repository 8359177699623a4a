"""A good body for each route of edge commands that takes one, for tests that make it wrong in one place."""

from collections.abc import Callable
from typing import Any
from uuid import uuid4

from tests.server.edge_things import EdgeThings

EdgeBody = Callable[[EdgeThings], dict[str, Any]]

_COLLECTOR = "/api/edge/v1"
_ADMIN = "/api/edge/v1/admin"


def _command(things: EdgeThings, **changed: Any) -> dict[str, Any]:
    return {"site_id": things.site_id, "miner_id": things.miner_id, "command_type": "start", **changed}


def _whole_command(things: EdgeThings) -> dict[str, Any]:
    return _command(
        things,
        zone_id=things.zone_id,
        params={"reason": "x"},
        priority=1,
        ttl_sec=60,
        dedupe_key=str(uuid4()),
        max_retries=1,
    )


def _command_for_many(things: EdgeThings) -> dict[str, Any]:
    wish = {"site_id": things.site_id, "target_ids": [things.miner_id], "command_type": "stop"}
    return {**wish, "expires_at": None, "supersedes": None}


def _rule(things: EdgeThings) -> dict[str, Any]:
    return {
        "name": "rule",
        "site_id": things.site_id,
        "trigger_type": "threshold",
        "action_type": "restart",
        "miner_ids": [things.miner_id],
        "trigger_metric": "temp_max",
        "trigger_operator": ">",
        "trigger_value": 90.5,
        "trigger_duration_seconds": 60,
        "action_parameters": {"reason": "hot"},
        "cooldown_seconds": 60,
        "priority": 1,
        "enabled": True,
    }


def _rule_change(things: EdgeThings) -> dict[str, Any]:
    return {name: value for name, value in _rule(things).items() if name != "site_id"}


def _ack(_things: EdgeThings) -> dict[str, Any]:
    return {
        "status": "succeeded",
        "result_code": 0,
        "message": "done",
        "executed_at": "2026-01-18T10:05:00Z",
        "before_snapshot": {"a": 1},
        "after_snapshot": {"a": 2},
        "nonce": None,
        "attempt": 1,
        "signature": None,
        "params": {"retry_after_sec": 1},
        "retry_after_sec": 1,
    }


def _short_ack(_things: EdgeThings) -> dict[str, Any]:
    return {
        "status": "deferred",
        "result_message": "later",
        "ack_nonce": None,
        "result_code": "E1",
        "defer_until": "2026-01-18T10:05:00Z",
    }


EDGE_BODIES: dict[tuple[str, str], list[EdgeBody]] = {
    ("POST", _COLLECTOR + "/commands/{command_id}/ack"): [_ack, _short_ack],
    ("POST", _COLLECTOR + "/commands/{command_id}/extend"): [lambda _: {"lease_seconds": 60, "nonce": None}],
    ("POST", _ADMIN + "/rules"): [_rule],
    ("PUT", _ADMIN + "/rules/{rule_id}"): [_rule],
    ("PATCH", _ADMIN + "/rules/{rule_id}"): [_rule_change],
    ("POST", _ADMIN + "/sites"): [lambda _: {"name": str(uuid4())}],
    ("POST", _ADMIN + "/zones"): [lambda things: {"site_id": things.site_id, "name": str(uuid4())}],
    ("POST", _ADMIN + "/miners"): [
        lambda things: {"site_id": things.site_id, "name": "m", "zone_id": things.zone_id, "id": None}
    ],
    ("POST", _ADMIN + "/devices"): [
        lambda things: {"site_id": things.site_id, "device_name": str(uuid4()), "zone_id": things.zone_id}
    ],
    ("POST", _ADMIN + "/devices/{device_id}/rotate"): [lambda _: {"what": "both", "overlap_sec": 60}],
    ("POST", _ADMIN + "/commands"): [
        _whole_command,
        _command_for_many,
        lambda things: {"site_id": things.site_id, "all_miners": True, "command_type": "enable"},
        lambda things: {"commands": [_command(things)]},
    ],
    ("POST", _ADMIN + "/commands/{command_id}/cancel"): [lambda _: {"reason": "why not"}],
    ("POST", _ADMIN + "/commands/{command_id}/deny"): [lambda _: {"reason": "why not"}],
}


def _telemetry(things: EdgeThings) -> dict[str, Any]:
    record = {"miner_id": things.miner_id, "ts": "2026-01-18T10:05:00Z", "temp_max": 80.5}
    return {
        "schema": "telemetry_envelope.v1",
        "site_id": things.site_id,
        "zone_id": things.zone_id,
        "device_id": things.device_id,
        "sent_at": "2026-01-18T10:05:00Z",
        "record_count": 1,
        "records": [record],
    }


def _safety(things: EdgeThings) -> dict[str, Any]:
    event = {
        "miner_id": things.miner_id,
        "action": "THERMAL_SHUTDOWN",
        "reason": "hot",
        "temp_max": 98.5,
        "ts": "2026-01-18T10:30:00Z",
        "snapshot_json": {"a": 1},
    }
    return {"events": [event]}


# Routes that read their bodies themselves, because these may be packed.
READ_BY_THEMSELVES: dict[tuple[str, str], list[EdgeBody]] = {
    ("POST", _COLLECTOR + "/telemetry/batch"): [_telemetry],
    ("POST", _COLLECTOR + "/telemetry/ingest"): [_telemetry],
    ("POST", _COLLECTOR + "/events/safety/batch"): [_safety],
}
