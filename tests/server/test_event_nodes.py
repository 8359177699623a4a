"""Two live nodes on one PostgreSQL, both with all services of event polling.

They share the work, nothing is done twice, and a change at one of them applies at the other.
"""

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import pytest

from restante.database.bus import node_bus
from restante.events.publishing import publishing
from restante.events.push import pusher
from restante.events.signing import signer, signing_leases
from restante.events.signing.signing_pool import SigningPool
from restante.events.signing.signing_worker import SigningJob
from restante.identity import api_keys
from restante.identity.callers import Role
from restante.server.cluster.roles import RoleNames
from restante.server.config.settings import DECLARATIONS
from tests.events import inbox_fixture
from tests.events.inbox_fixture import PollingClient
from tests.events.publish_fixture import event_request, header_of, inbox_rows, set_alg, verified_claims
from tests.events.receiver_process import ReceiverProcess, receiving, wait_until
from tests.events.tls_files import TlsFiles, make_tls_files
from tests.server.live_server import TIMEOUT_SECONDS, LiveServer
from tests.server.two_nodes import Nodes

pytestmark = pytest.mark.slow

ROLES = RoleNames(["api", "signing", "push"])
BATCH = 5
EVENTS = 40
PUSHED = 16


@pytest.fixture(scope="module")
def tls(tmp_path_factory: pytest.TempPathFactory) -> TlsFiles:
    return make_tls_files(tmp_path_factory.mktemp("tls"))


@pytest.fixture
def receiver(tls: TlsFiles, tmp_path: Path) -> Iterator[ReceiverProcess]:
    with receiving(tls, tmp_path / "record") as receiver:
        yield receiver


class NodePair(NamedTuple):
    here: LiveServer
    there: LiveServer
    admin: dict[str, str]

    def add_client(self) -> PollingClient:
        client: PollingClient = self.here.node.database.write_now(inbox_fixture.add_client)
        # Keys of this algorithm are generated fast.
        set_alg(self.here.node.database, client.id, "ES256")
        return client

    def publish(self, server: LiveServer, client: PollingClient, **changed: Any) -> list[str]:
        jtis: list[str] = server.node.database.write_now(publishing.publish, event_request(client.client_id, **changed))
        return jtis

    def tokens(self, client: PollingClient) -> list[str]:
        """The signed tokens, in the order of publishing."""
        found = [row for row in inbox_rows(self.here.node.database) if row["client"] == client.id]
        return [row["text"] for row in found if row["status"] != "unsigned"]


@pytest.fixture
def pair(tmp_path: Path, postgres_url: str, tls: TlsFiles, monkeypatch: pytest.MonkeyPatch) -> Iterator[NodePair]:
    monkeypatch.setattr(node_bus, "SCAN_SECONDS", 0.2)
    monkeypatch.setattr(signer, "BATCH_ROWS", BATCH)
    # No signing lease expires in these tests, however slow the machine is.
    monkeypatch.setattr(signing_leases, "LEASE_SECONDS", 3600)
    settings = {
        "event_signing_processes": 1,
        "event_key_lead_seconds": 0,
        "push_allowed": DECLARATIONS["push_allowed"].type.parse("127.0.0.0/8,::1"),
        "push_ca": tls.authority,
        "push_timeout_seconds": 120.0,
    }
    nodes = Nodes(tmp_path, postgres_url)
    here, there = (nodes.start(ROLES, **settings) for _ in range(2))
    key = here.node.database.write_now(api_keys.create, "admin", Role.admin)[1]
    yield NodePair(here, there, {"Authorization": f"Bearer {key}"})
    nodes.close()


def request(server: LiveServer, method: str, path: str, headers: dict[str, str], json: Any = None) -> httpx.Response:
    url = f"http://127.0.0.1:{server.fast_port}{path}"
    return httpx.request(method, url, headers=headers, json=json, timeout=TIMEOUT_SECONDS)


def bearer(client: PollingClient) -> dict[str, str]:
    return {"Authorization": f"Bearer {client.token}"}


class SignerSpy:
    """Counts the payloads that the signer of a node signs; calls `before_first` before the first one."""

    def __init__(self, server: LiveServer, before_first: Callable[[], None] = lambda: None) -> None:
        self.payloads: list[bytes] = []
        pool: SigningPool = server.node.signing.signer.pool
        submit = pool.submit

        def counting_submit(job: SigningJob, *key: Any) -> Any:
            if not self.payloads:
                before_first()
            self.payloads += job.payloads
            return submit(job, *key)

        server.call(setattr, pool, "submit", counting_submit)


def test_two_nodes_sign_each_event_once_and_in_order(pair: NodePair) -> None:
    """One node leases rows and waits until the other node has signed other rows."""
    signers = [server.node.signing.signer for server in (pair.here, pair.there)]

    def wait_for_the_other() -> None:
        wait_until(lambda: signers[1].counters.signed > 0, "the other node's first signature")

    spies = [SignerSpy(pair.here, wait_for_the_other), SignerSpy(pair.there)]
    clients = [pair.add_client() for _ in range(2)]
    published = [pair.publish((pair.here, pair.there)[n % 2], clients[n // 2 % 2]) for n in range(EVENTS)]
    wait_until(lambda: sum(each.counters.signed for each in signers) >= EVENTS, "all signed")
    assert [len(each.payloads) > 0 for each in spies] == [True, True]
    assert len({payload for each in spies for payload in each.payloads}) == EVENTS
    assert sum(len(each.payloads) for each in spies) == EVENTS
    assert sum(each.counters.signed for each in signers) == EVENTS
    for number, client in enumerate(clients):
        jtis = [jti for n, (jti,) in enumerate(published) if n // 2 % 2 == number]
        polled = request(pair.there, "POST", "/events", bearer(client), {"maxEvents": 100, "returnImmediately": True})
        assert list(polled.json()["sets"]) == jtis
        claims = [verified_claims(pair.here.node.database, token) for token in polled.json()["sets"].values()]
        assert [each["jti"] for each in claims] == jtis


def test_two_nodes_push_each_event_once_and_in_order(
    pair: NodePair, receiver: ReceiverProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A node releases a receiver after a few events, so that the nodes alternate."""
    monkeypatch.setattr(pusher, "TURN_EVENTS_MAX", 2)
    clients = {f"/status/202,202{extra}": pair.add_client() for extra in ("", ",202")}
    for path, client in clients.items():
        subscription = {"Data": {"CallbackUrl": receiver.url(path), "Version": "4.0"}}
        assert request(pair.here, "POST", "/event-subscriptions", bearer(client), subscription).status_code == 201
    for number in range(PUSHED):
        for client in clients.values():
            pair.publish((pair.here, pair.there)[number % 2], client)
    pushers = [server.node.push.pusher for server in (pair.here, pair.there)]
    wait_until(lambda: sum(each.counters.delivered for each in pushers) == 2 * PUSHED, "all pushed")
    for path, client in clients.items():
        assert receiver.bodies(path) == pair.tokens(client)
        assert len(set(receiver.bodies(path))) == PUSHED


def test_key_rotated_or_withdrawn_at_one_node_is_so_at_the_other(pair: NodePair) -> None:
    client = pair.add_client()

    def published_at(server: LiveServer) -> set[str]:
        return {key["kid"] for key in request(server, "GET", "/jwks.json", {}).json()["keys"]}

    def signed_next(server: LiveServer) -> str:
        before = len(pair.tokens(client))
        pair.publish(server, client)
        wait_until(lambda: len(pair.tokens(client)) == before + 1, "the token")
        return str(header_of(pair.tokens(client)[-1])["kid"])

    before = published_at(pair.here)
    first = signed_next(pair.there)
    # ES256 was registered behind the server's back, so its key is as new as its first token.
    assert published_at(pair.here) == published_at(pair.there) == before | {first}
    rotated = request(pair.here, "POST", "/admin/events/keys/rotate", pair.admin, {"alg": "ES256"}).json()["kid"]
    assert published_at(pair.there) == before | {first, rotated}
    assert signed_next(pair.there) == signed_next(pair.here) == rotated
    withdrawn = request(pair.there, "POST", f"/admin/events/keys/{rotated}/withdraw", pair.admin)
    assert withdrawn.status_code == 200
    assert rotated not in published_at(pair.here)
    # Tokens that were not delivered yet are signed again, by either node, with a valid key.
    wait_until(lambda: len(pair.tokens(client)) == 3, "the tokens signed again")
    kids = {str(header_of(token)["kid"]) for token in pair.tokens(client)}
    assert rotated not in kids
    assert kids <= published_at(pair.here) == published_at(pair.there)


def test_subscription_changed_at_one_node_applies_at_the_other(pair: NodePair, receiver: ReceiverProcess) -> None:
    client = pair.add_client()
    path, moved = "/status/202", "/status/202,202"
    subscription = {"CallbackUrl": receiver.url(path), "Version": "4.0"}
    made = request(pair.here, "POST", "/event-subscriptions", bearer(client), {"Data": subscription}).json()["Data"]
    pair.publish(pair.there, client)
    wait_until(lambda: len(receiver.bodies(path)) == 1, "the first push")
    one = f"/event-subscriptions/{made['EventSubscriptionId']}"
    changed = {**made, "CallbackUrl": receiver.url(moved)}
    assert request(pair.here, "PUT", one, bearer(client), {"Data": changed}).status_code == 200
    (shown,) = request(pair.there, "GET", "/event-subscriptions", bearer(client)).json()["Data"]["EventSubscription"]
    assert shown["CallbackUrl"] == receiver.url(moved)
    pair.publish(pair.there, client)
    wait_until(lambda: len(receiver.bodies(moved)) == 1, "the push to the new URL")
    narrowed = {**changed, "EventTypes": ["urn:uk:org:openbanking:events:consent-authorization-revoked"]}
    assert request(pair.here, "PUT", one, bearer(client), {"Data": narrowed}).status_code == 200
    assert pair.publish(pair.there, client) == []
    assert len(receiver.bodies(path)) == 1


def test_client_suspended_at_one_node_is_refused_by_the_other(pair: NodePair) -> None:
    client, there = pair.add_client(), pair.there
    now = {"returnImmediately": True}
    assert request(there, "POST", "/events", bearer(client), now).status_code == 200
    waiting: list[httpx.Response] = []
    poll = threading.Thread(target=lambda: waiting.append(request(there, "POST", "/events", bearer(client), {})))
    poll.start()
    there.wait_until(lambda: there.node.events.poll.parked_count == 1)
    suspended = request(pair.here, "POST", f"/admin/clients/{client.client_id}/suspend", pair.admin)
    assert suspended.status_code == 200
    poll.join(TIMEOUT_SECONDS)
    assert [each.status_code for each in waiting] == [401]
    assert request(there, "POST", "/events", bearer(client), now).status_code == 401
