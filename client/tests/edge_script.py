"""Responses of the edge commands protocol for the scripted server."""

from __future__ import annotations

import json
from typing import Any

from scripted_server import Reply, ScriptedServer

from restante_client.collector.signatures import SIG_VERSION, SIGNED_FIELDS, sign

SECRET = "5e" * 32
OLD_SECRET = "0d" * 32
NOW = "2026-01-18T10:00:00Z"
OK = {"status": "ok"}


def reply(body: Any, status: int = 200, **headers: str) -> Reply:
    return Reply(status, json.dumps(body).encode(), {name.replace("_", "-"): value for name, value in headers.items()})


def refusal(status: int, code: str, **headers: str) -> Reply:
    return reply({"error": code, "message": "no"}, status, **headers)


def command(number: int = 1, attempt: int = 1, secret: str = SECRET, **changed: Any) -> dict[str, Any]:
    fields: dict[str, Any] = {
        "command_id": f"cmd_{number}",
        "site_id": 1,
        "zone_id": 1,
        "miner_id": 1001,
        "command_type": "MINER_RESTART",
        "params": {"reason": "Überhitzung"},
        "priority": 0,
        "expires_at": "2026-01-18T11:00:00Z",
        "dedupe_key": None,
        "signed_at": NOW,
        "nonce": f"nonce-{number}-{attempt}",
        **changed,
    }
    signature = sign({name: fields[name] for name in SIGNED_FIELDS}, secret)
    unsigned = {"attempt": attempt, "lease_until": "2026-01-18T10:01:00Z", "sig_version": SIG_VERSION}
    return {"signature": signature, **unsigned, **fields}


def polled(*commands: dict[str, Any], server_time: str = NOW) -> Reply:
    return reply({"commands": list(commands), "server_time": server_time})


def acks(server: ScriptedServer) -> list[dict[str, Any]]:
    return [request.json for request in server.requests if request.path.endswith("/ack")]
