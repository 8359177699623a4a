"""Two live nodes on one PostgreSQL, both with every service of event polling: the work is shared, nothing is done
twice, and what is changed at one of them holds at the other."""

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import pytest

from restante.database import exchange
from restante.events import publishing, push, sign_claims, signer
from restante.events.sign_pool import SignPool
from restante.events.sign_worker import Job
from restante.identity import api_keys
from restante.identity.callers import Role
from restante.server.roles import RoleNames
from restante.server.settings import DECLARED
from tests.events import bank
from tests.events.bank import Customer
from tests.events.publishers import header_of, rows, set_alg, verified, wish
from tests.events.receiver_process import ReceiverProcess, receiving, until
from tests.events.tls_files import TlsFiles, make_tls_files
from tests.server.nodes import Nodes
from tests.server.serving import PATIENCE_SECONDS, Served

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


class Pair(NamedTuple):
    here: Served
    there: Served
    admin: dict[str, str]

    def add_client(self) -> Customer:
        customer: Customer = self.here.node.database.write_now(bank.add_client)
        # Quickly made keys.
        set_alg(self.here.node.database, customer.id, "ES256")
        return customer

    def publish(self, served: Served, customer: Customer, **changed: Any) -> list[str]:
        jtis: list[str] = served.node.database.write_now(publishing.publish, wish(customer.client_id, **changed))
        return jtis

    def tokens(self, customer: Customer) -> list[str]:
        """In the order of publishing; those that are signed."""
        found = [row for row in rows(self.here.node.database) if row["client"] == customer.id]
        return [row["text"] for row in found if row["status"] != "unsigned"]


@pytest.fixture
def pair(tmp_path: Path, postgres_url: str, tls: TlsFiles, monkeypatch: pytest.MonkeyPatch) -> Iterator[Pair]:
    monkeypatch.setattr(exchange, "LOOK_SECONDS", 0.2)
    monkeypatch.setattr(signer, "BATCH_ROWS", BATCH)
    # However slow the machine is, nobody loses a claim in these tests.
    monkeypatch.setattr(sign_claims, "CLAIM_SECONDS", 3600)
    settings = {
        "event_signing_processes": 1,
        "event_key_lead_seconds": 0,
        "push_allowed": DECLARED["push_allowed"].kind.read("127.0.0.0/8,::1"),
        "push_ca": tls.authority,
        "push_timeout_seconds": 120.0,
    }
    nodes = Nodes(tmp_path, postgres_url)
    here, there = (nodes.start(ROLES, **settings) for _ in range(2))
    key = here.node.database.write_now(api_keys.create, "admin", Role.admin)[1]
    yield Pair(here, there, {"Authorization": f"Bearer {key}"})
    nodes.close()


def ask(served: Served, method: str, path: str, headers: dict[str, str], json: Any = None) -> httpx.Response:
    url = f"http://127.0.0.1:{served.fast_port}{path}"
    return httpx.request(method, url, headers=headers, json=json, timeout=PATIENCE_SECONDS)


def bearer(customer: Customer) -> dict[str, str]:
    return {"Authorization": f"Bearer {customer.token}"}


class Watched:
    """Counts what a node's signer signs; `before_first` is called before it signs anything."""

    def __init__(self, served: Served, before_first: Callable[[], None] = lambda: None) -> None:
        self.payloads: list[bytes] = []
        pool: SignPool = served.node.events.tokens.signer._pool
        submit = pool.submit

        def watched(job: Job, *key: Any) -> Any:
            if not self.payloads:
                before_first()
            self.payloads += job.payloads
            return submit(job, *key)

        served.call(setattr, pool, "submit", watched)


def test_both_sign_and_each_event_is_signed_once_and_in_order(pair: Pair) -> None:
    """One of them takes rows and waits with them until the other has signed others."""
    signers = [served.node.events.tokens.signer for served in (pair.here, pair.there)]

    def wait_for_the_other() -> None:
        until(lambda: signers[1].totals.signed > 0, "what the other signs")

    watched = [Watched(pair.here, wait_for_the_other), Watched(pair.there)]
    customers = [pair.add_client() for _ in range(2)]
    published = [pair.publish((pair.here, pair.there)[n % 2], customers[n // 2 % 2]) for n in range(EVENTS)]
    until(lambda: sum(each.totals.signed for each in signers) >= EVENTS, "all signed")
    assert [len(each.payloads) > 0 for each in watched] == [True, True]
    assert len({payload for each in watched for payload in each.payloads}) == EVENTS
    assert sum(len(each.payloads) for each in watched) == EVENTS
    assert sum(each.totals.signed for each in signers) == EVENTS
    for number, customer in enumerate(customers):
        jtis = [jti for n, (jti,) in enumerate(published) if n // 2 % 2 == number]
        polled = ask(pair.there, "POST", "/events", bearer(customer), {"maxEvents": 100, "returnImmediately": True})
        assert list(polled.json()["sets"]) == jtis
        claims = [verified(pair.here.node.database, token) for token in polled.json()["sets"].values()]
        assert [each["jti"] for each in claims] == jtis


def test_both_push_and_each_event_is_pushed_once_and_in_order(
    pair: Pair, receiver: ReceiverProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A receiver is let go after a few events, so that it changes hands again and again."""
    monkeypatch.setattr(push, "TURN_EVENTS_MAX", 2)
    customers = {f"/answer/202,202{extra}": pair.add_client() for extra in ("", ",202")}
    for path, customer in customers.items():
        subscription = {"Data": {"CallbackUrl": receiver.url(path), "Version": "4.0"}}
        assert ask(pair.here, "POST", "/event-subscriptions", bearer(customer), subscription).status_code == 201
    for number in range(PUSHED):
        for customer in customers.values():
            pair.publish((pair.here, pair.there)[number % 2], customer)
    pushers = [served.node.event_push.pusher for served in (pair.here, pair.there)]
    until(lambda: sum(each.totals.delivered for each in pushers) == 2 * PUSHED, "all pushed")
    for path, customer in customers.items():
        assert receiver.bodies(path) == pair.tokens(customer)
        assert len(set(receiver.bodies(path))) == PUSHED


def test_a_key_that_is_rotated_or_withdrawn_at_one_is_so_at_the_other(pair: Pair) -> None:
    customer = pair.add_client()

    def published_at(served: Served) -> set[str]:
        return {key["kid"] for key in ask(served, "GET", "/jwks.json", {}).json()["keys"]}

    def signed_next(served: Served) -> str:
        before = len(pair.tokens(customer))
        pair.publish(served, customer)
        until(lambda: len(pair.tokens(customer)) == before + 1, "the token")
        return str(header_of(pair.tokens(customer)[-1])["kid"])

    first = signed_next(pair.there)
    assert published_at(pair.here) == published_at(pair.there) == {first}
    rotated = ask(pair.here, "POST", "/admin/events/keys/rotate", pair.admin, {"alg": "ES256"}).json()["kid"]
    assert published_at(pair.there) == {first, rotated}
    assert signed_next(pair.there) == signed_next(pair.here) == rotated
    withdrawn = ask(pair.there, "POST", f"/admin/events/keys/{rotated}/withdraw", pair.admin)
    assert withdrawn.status_code == 200
    assert rotated not in published_at(pair.here)
    # What nobody was handed is signed again, at either node, with a key that is good.
    until(lambda: len(pair.tokens(customer)) == 3, "what is signed again")
    kids = {str(header_of(token)["kid"]) for token in pair.tokens(customer)}
    assert rotated not in kids
    assert kids <= published_at(pair.here) == published_at(pair.there)


def test_a_subscription_that_is_changed_at_one_holds_at_the_other(pair: Pair, receiver: ReceiverProcess) -> None:
    customer = pair.add_client()
    path, moved = "/answer/202", "/answer/202,202"
    wanted = {"CallbackUrl": receiver.url(path), "Version": "4.0"}
    made = ask(pair.here, "POST", "/event-subscriptions", bearer(customer), {"Data": wanted}).json()["Data"]
    pair.publish(pair.there, customer)
    until(lambda: len(receiver.bodies(path)) == 1, "the first push")
    one = f"/event-subscriptions/{made['EventSubscriptionId']}"
    changed = {**made, "CallbackUrl": receiver.url(moved)}
    assert ask(pair.here, "PUT", one, bearer(customer), {"Data": changed}).status_code == 200
    (shown,) = ask(pair.there, "GET", "/event-subscriptions", bearer(customer)).json()["Data"]["EventSubscription"]
    assert shown["CallbackUrl"] == receiver.url(moved)
    pair.publish(pair.there, customer)
    until(lambda: len(receiver.bodies(moved)) == 1, "the push to where it is now")
    narrowed = {**changed, "EventTypes": ["urn:uk:org:openbanking:events:consent-authorization-revoked"]}
    assert ask(pair.here, "PUT", one, bearer(customer), {"Data": narrowed}).status_code == 200
    assert pair.publish(pair.there, customer) == []
    assert len(receiver.bodies(path)) == 1


def test_a_client_that_is_suspended_at_one_is_refused_by_the_other(pair: Pair) -> None:
    customer, there = pair.add_client(), pair.there
    now = {"returnImmediately": True}
    assert ask(there, "POST", "/events", bearer(customer), now).status_code == 200
    waiting: list[httpx.Response] = []
    poll = threading.Thread(target=lambda: waiting.append(ask(there, "POST", "/events", bearer(customer), {})))
    poll.start()
    there.until(lambda: there.node.events.poll.bell.waiting_count == 1)
    suspended = ask(pair.here, "POST", f"/admin/clients/{customer.client_id}/suspend", pair.admin)
    assert suspended.status_code == 200
    poll.join(PATIENCE_SECONDS)
    assert [each.status_code for each in waiting] == [401]
    assert ask(there, "POST", "/events", bearer(customer), now).status_code == 401
