"""A valid body for each route of edge commands that takes one."""

from collections.abc import Callable
from typing import Any
from uuid import uuid4

from tests.server.edge_resources import EdgeResources

EdgeBody = Callable[[EdgeResources], dict[str, Any]]

_COLLECTOR = "/api/edge/v1"
_ADMIN = "/api/edge/v1/admin"
_OLDER = "/api/collector"


def _command(resources: EdgeResources, **changed: Any) -> dict[str, Any]:
    return {"site_id": resources.site_id, "miner_id": resources.miner_id, "command_type": "start", **changed}


def _whole_command(resources: EdgeResources) -> dict[str, Any]:
    return _command(
        resources,
        zone_id=resources.zone_id,
        params={"reason": "x"},
        priority=1,
        ttl_sec=60,
        dedupe_key=str(uuid4()),
        max_retries=1,
    )


def _command_for_many(resources: EdgeResources) -> dict[str, Any]:
    command = {"site_id": resources.site_id, "target_ids": [resources.miner_id], "command_type": "stop"}
    return {**command, "expires_at": None, "supersedes": None}


def _rule(resources: EdgeResources) -> dict[str, Any]:
    return {
        "name": "rule",
        "site_id": resources.site_id,
        "trigger_type": "threshold",
        "action_type": "restart",
        "miner_ids": [resources.miner_id],
        "trigger_metric": "temp_max",
        "trigger_operator": ">",
        "trigger_value": 90.5,
        "trigger_duration_seconds": 60,
        "action_parameters": {"reason": "hot"},
        "cooldown_seconds": 60,
        "priority": 1,
        "enabled": True,
    }


def _rule_change(resources: EdgeResources) -> dict[str, Any]:
    return {name: value for name, value in _rule(resources).items() if name != "site_id"}


def _ack(_resources: EdgeResources) -> dict[str, Any]:
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


def _short_ack(_resources: EdgeResources) -> dict[str, Any]:
    return {
        "status": "deferred",
        "result_message": "later",
        "ack_nonce": None,
        "result_code": "E1",
        "defer_until": "2026-01-18T10:05:00Z",
    }


def _older_result(_resources: EdgeResources) -> dict[str, Any]:
    return {"status": "completed", "result_code": 0, "result": "done"}


EDGE_BODIES: dict[tuple[str, str], list[EdgeBody]] = {
    ("POST", _COLLECTOR + "/commands/{command_id}/ack"): [_ack, _short_ack],
    ("POST", _COLLECTOR + "/commands/{command_id}/extend"): [lambda _: {"lease_seconds": 60, "nonce": None}],
    ("POST", _OLDER + "/commands/{command_id}/result"): [_ack, _older_result],
    ("PUT", _ADMIN + "/approval-policy"): [
        lambda _: {"command_types": ["DEVICE_REBOOT"], "miners_from": 1000, "window_seconds": 60}
    ],
    ("POST", _ADMIN + "/rules"): [_rule],
    ("PUT", _ADMIN + "/rules/{rule_id}"): [_rule],
    ("PATCH", _ADMIN + "/rules/{rule_id}"): [_rule_change],
    ("POST", _ADMIN + "/sites"): [lambda _: {"name": str(uuid4())}],
    ("POST", _ADMIN + "/zones"): [lambda resources: {"site_id": resources.site_id, "name": str(uuid4())}],
    ("POST", _ADMIN + "/miners"): [
        lambda resources: {"site_id": resources.site_id, "name": "m", "zone_id": resources.zone_id, "id": None}
    ],
    ("PATCH", _ADMIN + "/sites/{site_id}"): [lambda _: {"name": str(uuid4())}],
    ("PATCH", _ADMIN + "/zones/{zone_id}"): [lambda _: {"name": str(uuid4())}],
    ("PATCH", _ADMIN + "/miners/{miner_id}"): [
        lambda _: {"name": str(uuid4())},
        lambda resources: {"name": "m", "site_id": resources.site_id, "zone_id": resources.zone_id},
    ],
    ("POST", _ADMIN + "/miners/{miner_id}/replace"): [lambda _: {"name": str(uuid4()), "id": None}],
    ("POST", _ADMIN + "/devices"): [
        lambda resources: {"site_id": resources.site_id, "device_name": str(uuid4()), "zone_id": resources.zone_id}
    ],
    ("POST", _ADMIN + "/devices/{device_id}/verify"): [lambda _: {"commands": [{"command_id": "c"}]}],
    ("POST", _ADMIN + "/audit/verify"): [lambda _: {"since": []}],
    ("POST", _ADMIN + "/devices/{device_id}/rotate"): [lambda _: {"what": "both", "overlap_sec": 60}],
    ("POST", _ADMIN + "/commands"): [
        _whole_command,
        _command_for_many,
        lambda resources: {"site_id": resources.site_id, "all_miners": True, "command_type": "enable"},
        lambda resources: {"commands": [_command(resources)]},
    ],
    ("POST", _ADMIN + "/miners/bulk"): [
        lambda resources: {
            "action": "send",
            "filter": {"site_id": resources.site_id},
            "params": {"command_type": "enable", "params": {}, "priority": 1, "ttl_sec": 60, "max_retries": 1},
            "dry_run": False,
            "rate_per_second": 10,
        }
    ],
    ("POST", _ADMIN + "/commands/bulk"): [
        lambda resources: {"action": "cancel", "filter": {"site_id": resources.site_id}, "params": {"reason": "x"}}
    ],
    ("POST", _ADMIN + "/commands/{command_id}/cancel"): [lambda _: {"reason": "why not"}],
    ("POST", _ADMIN + "/commands/{command_id}/deny"): [lambda _: {"reason": "why not"}],
}


def _telemetry(resources: EdgeResources) -> dict[str, Any]:
    record = {"miner_id": resources.miner_id, "ts": "2026-01-18T10:05:00Z", "temp_max": 80.5}
    return {
        "schema": "telemetry_envelope.v1",
        "site_id": resources.site_id,
        "zone_id": resources.zone_id,
        "device_id": resources.device_id,
        "sent_at": "2026-01-18T10:05:00Z",
        "record_count": 1,
        "records": [record],
    }


def _safety(resources: EdgeResources) -> dict[str, Any]:
    event = {
        "miner_id": resources.miner_id,
        "action": "THERMAL_SHUTDOWN",
        "reason": "hot",
        "temp_max": 98.5,
        "ts": "2026-01-18T10:30:00Z",
        "snapshot_json": {"a": 1},
    }
    return {"events": [event]}


# Routes whose handlers decode the body, because it may be compressed.
HANDLER_DECODED_BODIES: dict[tuple[str, str], list[EdgeBody]] = {
    ("POST", _COLLECTOR + "/telemetry/batch"): [_telemetry],
    ("POST", _COLLECTOR + "/telemetry/ingest"): [_telemetry],
    ("POST", _OLDER + "/upload"): [_telemetry],
    ("POST", _COLLECTOR + "/events/safety/batch"): [_safety],
}
