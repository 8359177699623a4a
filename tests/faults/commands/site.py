"""Create sites, miners and collectors on a running server over HTTP, for the commands fault tests."""

from dataclasses import dataclass
from typing import Any

from tests.faults.client import Client

ADMIN = "/api/edge/v1/admin"


@dataclass(frozen=True, slots=True)
class CollectorHandle:
    id: int
    token: str


def add_site(operator: Client, name: str) -> int:
    return int(_create(operator, "sites", {"name": name})["id"])


def add_miner(operator: Client, site_id: int) -> int:
    return int(_create(operator, "miners", {"site_id": site_id, "name": f"miner of site {site_id}"})["id"])


def add_collector(operator: Client, site_id: int, name: str) -> CollectorHandle:
    created = _create(operator, "devices", {"site_id": site_id, "device_name": name})
    return CollectorHandle(created["id"], created["token"])


def _create(operator: Client, resource: str, body: dict[str, Any]) -> dict[str, Any]:
    response = operator.request("POST", f"{ADMIN}/{resource}", body)
    assert response.status == 201, response
    created: dict[str, Any] = response.body
    return created
