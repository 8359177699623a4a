"""A stand-in for a collector that uses the older API: it sends the headers and bodies that such a collector sends, and
reads only the fields that it reads."""

import gzip
import json
from typing import Any

import httpx

from tests.field.collector import CollectorMiners, utc_without_zone


class OlderCollector:
    """`refused`: how many results the server refused."""

    def __init__(self, url: str, key: str, site_id: int, miner_ids: list[str], *, sends_bearer: bool) -> None:
        """`sends_bearer`: later versions send the key as a bearer token too."""
        credentials = {"X-Collector-Key": key, "X-Site-ID": str(site_id)}
        if sends_bearer:
            credentials["Authorization"] = f"Bearer {key}"
        self.site_id = site_id
        self.miners = CollectorMiners(miner_ids)
        self.refused = 0
        self._uploads = httpx.Client(
            base_url=url,
            headers={
                **credentials,
                "Content-Type": "application/octet-stream",
                "Content-Encoding": "gzip",
                "X-Upload-Mode": "raw",
            },
        )
        self._commands = httpx.Client(base_url=url, headers={**credentials, "Content-Type": "application/json"})

    def close(self) -> None:
        self._uploads.close()
        self._commands.close()

    def upload(self, temperature: float = 71.5) -> bool:
        """Report every miner; whether the upload counts as done. If not, a collector would send it again."""
        records = self.miners.telemetry(temperature)
        response = self._uploads.post("/api/collector/upload", content=gzip.compress(json.dumps(records).encode()))
        return response.status_code == 200 and bool(response.json().get("success"))

    def fetch(self) -> list[dict[str, Any]]:
        response = self._commands.get("/api/collector/commands/pending")
        assert response.status_code == 200, response.text
        body = response.json()
        assert body.get("success")
        commands: list[dict[str, Any]] = body.get("commands", [])
        return commands

    def process(self, *, is_result_lost: bool = False, fails: bool = False) -> list[str]:
        """Fetch and execute commands, and report their results; returns the status of each."""
        return [self._process(command, is_result_lost, fails) for command in self.fetch()]

    def _process(self, command: dict[str, Any], is_result_lost: bool, fails: bool) -> str:
        command_id = command.get("command_id") or command["id"]
        # Its configuration would not know the miner, if the server sent the id as a number.
        assert isinstance(command["miner_id"], str)
        status, code, message = self.miners.execute(command_id, command, fails=fails)
        if not is_result_lost:
            response = self._commands.post(
                f"/api/collector/commands/{command_id}/result",
                json={
                    "status": status,
                    "result_code": code,
                    "result_message": message,
                    "site_id": str(self.site_id),
                    "executed_at": utc_without_zone() + "Z",
                    "miner_id": str(command["miner_id"]),
                    "command": command["command"],
                    "duration_ms": 12,
                    "before": {"online": True, "hashrate_ghs": 100000.0},
                    "after": {"online": True, "hashrate_ghs": 0.0},
                },
            )
            assert response.status_code in (200, 409), response.text
            self.refused += response.status_code == 409
        return status
