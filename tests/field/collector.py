"""A stand-in for a collector in the field: it sends the headers and bodies that such a collector sends, and reads only
the fields that it reads.

It never runs a command twice, and it drops commands for a miner that is busy, without an ACK. `CollectorMiners` is
what the older API has in common with the newer one.
"""

import gzip
import json
from datetime import UTC, datetime
from typing import Any

import httpx

API = "/api/edge/v1"
Result = tuple[str, int, str]
DUPLICATE: Result = ("skipped", 2, "DUPLICATE_IGNORED")


def utc_without_zone() -> str:
    return datetime.now(UTC).replace(tzinfo=None).isoformat()


class CollectorMiners:
    """The miners that a collector's configuration names by text, and what was executed at each."""

    def __init__(self, miner_ids: list[str]) -> None:
        self.executed: dict[str, list[tuple[str, dict[str, Any]]]] = {miner_id: [] for miner_id in miner_ids}
        self._command_ids: set[str] = set()

    def telemetry(self, temperature: float) -> list[dict[str, Any]]:
        return [_record(miner_id, temperature) for miner_id in self.executed]

    def execute(self, command_id: str, command: dict[str, Any], *, fails: bool = False) -> Result:
        if command_id in self._command_ids:
            return DUPLICATE
        self._command_ids.add(command_id)
        self.executed[str(command["miner_id"])].append((command["command"], command["params"]))
        return ("failed", 1, "no answer") if fails else ("completed", 0, "done")


class Collector:
    """`dropped`: commands that arrived while their miner was busy. `refused`: how many ACKs the server refused."""

    def __init__(self, url: str, token: str, site_id: int, miner_ids: list[str]) -> None:
        self.miners = CollectorMiners(miner_ids)
        self.dropped: list[str] = []
        self.refused = 0
        self._site_id = site_id
        self._running: dict[str, tuple[dict[str, Any], Result]] = {}
        self._client = httpx.Client(base_url=url + API, headers={"Authorization": f"Bearer {token}"})

    def close(self) -> None:
        self._client.close()

    def report(self, temperature: float = 71.5) -> dict[str, Any]:
        """Send the telemetry of every miner."""
        records = self.miners.telemetry(temperature)
        envelope = {
            "schema": "telemetry_envelope.v1",
            "site_id": str(self._site_id),
            "record_count": len(records),
            "records": records,
        }
        packed = {"Content-Type": "application/octet-stream", "Content-Encoding": "gzip"}
        return self._post("/telemetry/batch", gzip.compress(json.dumps(envelope).encode()), packed)

    def report_shutdown(self, miner_id: str, temperature: float) -> dict[str, Any]:
        event = {
            "miner_id": miner_id,
            "action": "THERMAL_SHUTDOWN",
            "reason": f"{temperature}C",
            "temp_max": temperature,
            "ts": utc_without_zone(),
            "snapshot_json": {"hashrate_ghs": 0.0, "fan_speeds": [6000, 6000]},
        }
        headers = {"Content-Type": "application/json"}
        return self._post("/events/safety/batch", json.dumps({"events": [event]}).encode(), headers)

    def fetch(self, *, fails: bool = False) -> list[str]:
        """Poll, and start the commands. Their miners are busy until `finish`. Return the ids of those that started."""
        response = self._client.get("/commands/poll", params={"limit": 10})
        assert response.status_code == 200, response.text
        started = []
        for command in response.json()["commands"]:
            command_id, miner_id = command["command_id"], str(command["miner_id"])
            if miner_id in self._running:
                self.dropped.append(command_id)
                continue
            self._running[miner_id] = command, self.miners.execute(command_id, command, fails=fails)
            started.append(command_id)
        return started

    def finish(self, *, is_ack_lost: bool = False) -> list[str]:
        """End the commands in progress, and acknowledge them. Return the status of each."""
        statuses = []
        for command, result in self._running.values():
            statuses.append(result[0])
            if not is_ack_lost:
                self._acknowledge(command, result)
        self._running.clear()
        return statuses

    def _acknowledge(self, command: dict[str, Any], result: Result) -> None:
        status, code, message = result
        body = {
            "status": status,
            "result_code": code,
            "message": message,
            "executed_at": utc_without_zone() + "Z",
            "nonce": command["nonce"],
            "before": {"online": True, "hashrate_ghs": 100000.0},
            "after": {"online": True, "hashrate_ghs": 0.0},
        }
        response = self._client.post(f"/commands/{command['command_id']}/ack", json=body)
        assert response.status_code in (200, 409), response.text
        self.refused += response.status_code == 409

    def _post(self, path: str, content: bytes, headers: dict[str, str]) -> dict[str, Any]:
        response = self._client.post(path, content=content, headers=headers)
        assert response.status_code == 200, response.text
        body: dict[str, Any] = response.json()
        return body


def _record(miner_id: str, temperature: float) -> dict[str, Any]:
    return {
        "miner_id": miner_id,
        "timestamp": utc_without_zone(),
        "online": True,
        "hashrate_ghs": 102300.0,
        "hashrate_5s_ghs": 101000.5,
        "temperature_avg": 64.5,
        "temperature_max": temperature,
        "temperature_chips": [temperature, 57.5],
        "fan_speeds": [4200, 4080],
        "frequency_avg": 545.0,
        "accepted_shares": 10,
        "rejected_shares": 0,
        "hardware_errors": 0,
        "uptime_seconds": 3600,
        "power_consumption": 3250.0,
        "efficiency": 0.0,
        "pool_url": "stratum+tcp://pool.example:3333",
        "worker_name": "farm.1001",
        "firmware_version": "",
        "error_message": "",
    }
