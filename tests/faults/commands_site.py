"""Edge sites on a running server, for the command fault tests: made by an operator, over the wire."""

from typing import Any, NamedTuple

from tests.faults.client import Client

ADMIN = "/api/edge/v1/admin"


class CollectorHandle(NamedTuple):
    id: int
    token: str


def add_site(operator: Client, name: str) -> int:
    return int(_added(operator, "sites", {"name": name})["id"])


def add_miner(operator: Client, site_id: int) -> int:
    return int(_added(operator, "miners", {"site_id": site_id, "name": f"a miner of {site_id}"})["id"])


def add_collector(operator: Client, site_id: int, name: str) -> CollectorHandle:
    added = _added(operator, "devices", {"site_id": site_id, "device_name": name})
    return CollectorHandle(added["id"], added["token"])


def _added(operator: Client, what: str, body: dict[str, Any]) -> dict[str, Any]:
    reply = operator.ask("POST", f"{ADMIN}/{what}", body)
    assert reply.status == 201, reply
    added: dict[str, Any] = reply.body
    return added
