"""Poll, ACK and extend over HTTP, each case through the application and through the fast lane: the same bytes."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from restante.commands.component import CommandsOptions
from restante.commands.dispatch.signing import verify_command
from restante.database.database import Database
from restante.database.migrate import migrate
from restante.database.sqlite import SqliteEngine
from tests.commands.default_options import commands_options
from tests.commands.edge_fixture import Collector, CommandsHarness, CommandsServer
from tests.server.live_server import RawConnection, RawResponse

POLL = "/api/edge/v1/commands/poll"


class SiteServer:
    """A server with one site, whose collector's token is cached in the fast lane."""

    def __init__(self, database: Database, options: CommandsOptions | None = None) -> None:
        self.harness = CommandsHarness(database, options)
        self.site_id = self.harness.add_site()
        self.miner = self.harness.add_miner(self.site_id)
        self.collector = self.harness.add_collector(self.site_id)
        self.server = CommandsServer(self.harness)
        self.server.cache_token(self.collector)

    def send(self, **options: Any) -> str:
        return self.harness.add_command(self.site_id, self.miner, **options).command_id

    def ask(self, raw: bytes, port: int) -> RawResponse:
        with RawConnection(port) as wire:
            return wire.request(raw)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SiteServer]:
    yield from served(tmp_path_factory.mktemp("site"), commands_options(lease_seconds=600))


@pytest.fixture(scope="module")
def signing_site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SiteServer]:
    options = commands_options(is_signed=True, is_ack_nonce_required=True)
    yield from served(tmp_path_factory.mktemp("signing"), options)


def served(folder: Path, options: CommandsOptions) -> Iterator[SiteServer]:
    engine = SqliteEngine(folder / "restante.db")
    migrate(engine)
    database = Database(engine)
    site = SiteServer(database, options)
    yield site
    site.server.close()
    database.close()


@pytest.fixture(params=["fast", "plain"])
def lane(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def port_of(site: SiteServer, lane: str) -> int:
    return site.server.fast_port if lane == "fast" else site.server.plain_port


def get(target: str, collector: Collector, *lines: str) -> bytes:
    head = [f"GET {target} HTTP/1.1", "Host: x", f"Authorization: Bearer {collector.token}", *lines, "", ""]
    return "\r\n".join(head).encode()


def post(command_id: str, what: str, body: Any, collector: Collector, *lines: str) -> bytes:
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    head = [
        f"POST /api/edge/v1/commands/{command_id}/{what} HTTP/1.1",
        "Host: x",
        f"Authorization: Bearer {collector.token}",
        *(lines or ["Content-Type: application/json"]),
        f"Content-Length: {len(raw)}",
        "",
        "",
    ]
    return "\r\n".join(head).encode() + raw


def body_of(answer: RawResponse) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(answer.body)
    return found


def test_poll_and_ack(site: SiteServer, lane: str) -> None:
    sent = site.send()
    fast_before = site.server.lane.fast_requests
    answer = site.ask(get(POLL, site.collector), port_of(site, lane))
    body = body_of(answer)
    assert answer.status == 200
    assert answer.header(b"cache-control") == b"no-store"
    assert answer.header(b"content-type") == b"application/json"
    assert [command["command_id"] for command in body["commands"]] == [sent]
    assert (body["miner_command_count"], body["remote_command_count"], body["rate_limited_count"]) == (1, 0, 0)
    assert body["commands"][0]["signature"] is None
    ack = {"status": "succeeded", "result_code": 0, "nonce": body["commands"][0]["nonce"]}
    acked = site.ask(post(sent, "ack", ack, site.collector), port_of(site, lane))
    assert (acked.status, body_of(acked)) == (
        200,
        {"status": "ok", "command_id": sent, "command_status": "succeeded", "replayed": False},
    )
    again = site.ask(post(sent, "ack", ack, site.collector), port_of(site, lane))
    assert body_of(again)["replayed"] is True
    assert site.server.lane.fast_requests == fast_before + (3 if lane == "fast" else 0)


def test_empty_poll_has_all_fields(site: SiteServer, lane: str) -> None:
    body = body_of(site.ask(get(POLL, site.collector), port_of(site, lane)))
    assert list(body) == [
        "commands",
        "miner_command_count",
        "remote_command_count",
        "rate_limited_count",
        "server_time",
    ]
    assert body["commands"] == []


def test_signed_poll_and_ack(signing_site: SiteServer, lane: str) -> None:
    site = signing_site
    sent = site.send(params='{"mode":"LOW","grund":"größer 🔥"}'.encode(), dedupe_key=f"key {lane}")
    command = body_of(site.ask(get(POLL, site.collector), port_of(site, lane)))["commands"][0]
    assert verify_command(command, site.collector.secret).is_valid
    assert (command["sig_version"], command["sig_encoding"]) == ("HMAC-SHA256-CANONICAL-JSON-V1", "hex")
    bare = site.ask(post(sent, "ack", {"status": "succeeded"}, site.collector), port_of(site, lane))
    assert (bare.status, body_of(bare)["error"]) == (401, "NONCE_MISMATCH")
    wrong = {"status": "succeeded", "nonce": command["nonce"], "signature": "00"}
    refused = site.ask(post(sent, "ack", wrong, site.collector), port_of(site, lane))
    assert (refused.status, body_of(refused)["error"]) == (401, "SIGNATURE_INVALID")
    good = site.ask(
        post(sent, "ack", {"status": "succeeded", "nonce": command["nonce"]}, site.collector), port_of(site, lane)
    )
    assert good.status == 200


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ("?limit=0", "limit"),
        ("?limit=51", "limit"),
        ("?limit=x", "limit"),
        ("?limit=", "limit"),
        ("?limit=1&limit=2", "limit"),
        ("?wait=31", "wait"),
        ("?wait=-1", "wait"),
        ("?zone_id=x", "zone_id"),
        ("?zone_id=0", "zone_id"),
        ("?zone_id=00", "zone_id"),
    ],
)
def test_invalid_query_names_the_field(site: SiteServer, lane: str, query: str, field: str) -> None:
    answer = site.ask(get(POLL + query, site.collector), port_of(site, lane))
    assert (answer.status, body_of(answer)["error"], body_of(answer)["field"]) == (400, "INVALID_REQUEST", field)


@pytest.mark.parametrize("query", ["?limit=50", "?limit=1&wait=0", "?wait=00", "?unknown=1"])
def test_valid_query_is_accepted(site: SiteServer, lane: str, query: str) -> None:
    assert site.ask(get(POLL + query, site.collector), port_of(site, lane)).status == 200


def test_foreign_and_missing_zones_get_the_same_response(site: SiteServer, lane: str) -> None:
    foreign = site.harness.add_zone(site.harness.add_site())
    responses = [
        site.ask(get(f"{POLL}?zone_id={zone}", site.collector), port_of(site, lane)) for zone in (foreign, 999_999)
    ]
    assert [each.status for each in responses] == [403, 403]
    assert responses[0].body == responses[1].body
    assert body_of(responses[0])["error"] == "ACCESS_DENIED"


def test_unknown_token_is_refused(site: SiteServer, lane: str) -> None:
    unknown = site.collector._replace(token="ed_nobody")
    for raw in (get(POLL, unknown), post("cmd_1", "ack", {"status": "succeeded"}, unknown)):
        answer = site.ask(raw, port_of(site, lane))
        assert (answer.status, body_of(answer)["error"]) == (401, "UNAUTHORIZED")
        assert answer.header(b"www-authenticate") == b'Bearer realm="restante", error="invalid_token"'


def test_refused_acks(site: SiteServer, lane: str) -> None:
    port = port_of(site, lane)
    other, stranger = site.harness.add_collector(site.site_id), site.harness.add_collector(site.harness.add_site())
    site.server.cache_token(other)
    site.server.cache_token(stranger)
    sent = site.send(ttl_sec=3600)
    ack = {"status": "failed", "message": lane}
    assert body_of(site.ask(post("cmd_none", "ack", ack, site.collector), port))["error"] == "COMMAND_NOT_FOUND"
    assert body_of(site.ask(post(sent, "ack", ack, stranger), port))["error"] == "ACCESS_DENIED"
    assert body_of(site.ask(post(sent, "ack", ack, site.collector), port))["error"] == "ACK_NOT_LEASE_OWNER"
    site.ask(get(POLL, site.collector), port)
    assert body_of(site.ask(post(sent, "ack", ack, other), port))["error"] == "ACK_NOT_LEASE_OWNER"
    wrong = site.ask(post(sent, "ack", {**ack, "nonce": "x"}, site.collector), port)
    assert (wrong.status, body_of(wrong)["error"]) == (401, "NONCE_MISMATCH")
    assert site.ask(post(sent, "ack", {"status": "rejected"}, site.collector), port).status == 200
    ended = site.ask(post(sent, "ack", ack, site.collector), port)
    assert (ended.status, body_of(ended)["error"], body_of(ended)["command_status"]) == (
        409,
        "COMMAND_FINISHED",
        "failed",
    )


@pytest.mark.parametrize(
    ("body", "field"),
    [
        (b"", "body"),
        (b"{", "body"),
        (b"[]", "body"),
        (b'{"result_code": 1}', "status"),
        (b'{"status": "failed", "result_code": NaN}', "body"),
        (b'{"status": "failed", "message": "\\ud800"}', "body"),
        (b'{"status": "failed", "message": "\xff"}', "body"),
        (b'{"status": "failed", "after_snapshot": {"a": ' + b"[" * 5000, "body"),
    ],
)
def test_invalid_ack_names_the_field(site: SiteServer, lane: str, body: bytes, field: str) -> None:
    answer = site.ask(post("cmd_1", "ack", body, site.collector), port_of(site, lane))
    assert (answer.status, body_of(answer)["error"], body_of(answer)["field"]) == (400, "INVALID_REQUEST", field)


def test_unknown_status_is_refused_after_the_command_is_found(site: SiteServer, lane: str) -> None:
    body, command_id = {"status": "done"}, site.send()
    site.harness.claim(site.collector.caller)
    answer = site.ask(post(command_id, "ack", body, site.collector), port_of(site, lane))
    assert (answer.status, body_of(answer)["field"]) == (400, "status")
    answer = site.ask(post("cmd_none", "ack", body, site.collector), port_of(site, lane))
    assert (answer.status, body_of(answer)["error"]) == (404, "COMMAND_NOT_FOUND")


def test_another_media_type_is_refused(site: SiteServer, lane: str) -> None:
    raw = post("cmd_1", "ack", {"status": "failed"}, site.collector, "Content-Type: text/plain")
    answer = site.ask(raw, port_of(site, lane))
    assert (answer.status, body_of(answer)["error"]) == (415, "UNSUPPORTED_MEDIA_TYPE")


def test_very_long_command_id_is_not_found(site: SiteServer, lane: str) -> None:
    for what, body in (("ack", {"status": "failed"}), ("extend", {"lease_seconds": 5})):
        answer = site.ask(post("c" * 300, what, body, site.collector), port_of(site, lane))
        assert (answer.status, body_of(answer)["error"]) == (404, "COMMAND_NOT_FOUND")


def test_extend(site: SiteServer, lane: str) -> None:
    port = port_of(site, lane)
    sent = site.send()
    command = body_of(site.ask(get(POLL, site.collector), port))["commands"][0]
    body = {"lease_seconds": 3600, "nonce": command["nonce"]}
    answer = site.ask(post(sent, "extend", body, site.collector), port)
    assert (answer.status, body_of(answer)["command_status"], body_of(answer)["lease_duration_sec"]) == (
        200,
        "dispatched",
        3600,
    )
    bad = site.ask(post(sent, "extend", {"lease_seconds": 0}, site.collector), port)
    assert (bad.status, body_of(bad)["field"]) == (400, "lease_seconds")
    site.ask(post(sent, "ack", {"status": "succeeded"}, site.collector), port)
    assert site.ask(post(sent, "extend", body, site.collector), port).status == 409


def test_long_poll_gets_a_new_command(site: SiteServer, lane: str) -> None:
    port = port_of(site, lane)
    poll = site.harness.component.poll
    with RawConnection(port) as wire:
        wire.send(get(f"{POLL}?wait=30", site.collector))
        site.server.wait_until(lambda: poll.parked_count == 1)
        sent = site.send()
        body = body_of(wire.response())
    assert [command["command_id"] for command in body["commands"]] == [sent]
    site.ask(post(sent, "ack", {"status": "succeeded"}, site.collector), port)


def test_long_poll_ends_empty_after_its_wait(site: SiteServer, lane: str) -> None:
    assert body_of(site.ask(get(f"{POLL}?wait=1", site.collector), port_of(site, lane)))["commands"] == []


def test_disconnected_client_is_not_parked(site: SiteServer, lane: str) -> None:
    poll = site.harness.component.poll
    with RawConnection(port_of(site, lane)) as wire:
        wire.send(get(f"{POLL}?wait=30", site.collector))
        site.server.wait_until(lambda: poll.parked_count == 1)
    site.server.wait_until(lambda: poll.parked_count == 0)


def test_ack_may_arrive_in_any_two_pieces(site: SiteServer) -> None:
    raw = post("cmd_none", "ack", {"status": "failed"}, site.collector)
    with RawConnection(site.server.fast_port) as wire:
        whole = wire.request(raw).without_date()
        for cut in range(1, len(raw)):
            wire.send(raw[:cut])
            site.server.call(int)  # the event loop has read the first piece by itself
            assert wire.request(raw[cut:]).without_date() == whole


def test_ack_whose_body_comes_later_is_served_by_the_fast_lane(site: SiteServer) -> None:
    raw = post("cmd_none", "ack", {"status": "failed"}, site.collector)
    head = raw.index(b"\r\n\r\n") + 4
    before = site.server.lane.fast_requests
    with RawConnection(site.server.fast_port) as wire:
        wire.send(raw[:head])
        site.server.call(int)
        assert wire.request(raw[head:]).status == 404
    assert site.server.lane.fast_requests == before + 1


def test_ack_whose_body_never_comes_times_out(site: SiteServer) -> None:
    raw = post("cmd_none", "ack", {"status": "failed"}, site.collector)
    before = site.server.lane.slow_senders_cut
    with RawConnection(site.server.fast_port) as wire:
        answer = wire.request(raw[:-3])
        assert answer.status == 408
        assert wire.is_closed_by_server()
    assert site.server.lane.slow_senders_cut == before + 1


def test_pipelined_acks_are_all_answered(site: SiteServer) -> None:
    raw = post("cmd_none", "ack", {"status": "failed"}, site.collector)
    with RawConnection(site.server.fast_port) as wire:
        wire.send(raw + raw + get(POLL, site.collector))
        assert [wire.response().status for _ in range(3)] == [404, 404, 200]
        assert wire.request(raw).status == 404


def test_large_ack_is_left_to_the_application(site: SiteServer, lane: str) -> None:
    body, command_id = {"status": "failed", "after_snapshot": {"a": "x" * 70_000}}, site.send()
    site.harness.claim(site.collector.caller)
    answer = site.ask(post(command_id, "ack", body, site.collector), port_of(site, lane))
    assert (answer.status, body_of(answer)["field"]) == (400, "after_snapshot")


ODD = {
    "names in small letters": lambda raw: raw.replace(b"Authorization", b"authorization"),
    "length in small letters": lambda raw: raw.replace(b"Content-Length", b"content-length"),
    "a charset": lambda raw: raw.replace(b"application/json", b"application/json; charset=utf-8"),
    "no media type": lambda raw: raw.replace(b"Content-Type: application/json\r\n", b""),
    "length twice": lambda raw: raw.replace(b"Content-Length", b"Content-Length: 20\r\nContent-Length"),
    "length too short": lambda raw: raw.replace(b"Content-Length: 20", b"Content-Length: 19"),
    "a signed length": lambda raw: raw.replace(b"Content-Length: 20", b"Content-Length: +20"),
    "an encoded id": lambda raw: raw.replace(b"cmd_none", b"cmd%5Fnone"),
    "an id with a slash": lambda raw: raw.replace(b"cmd_none", b"cmd/none"),
    "no id": lambda raw: raw.replace(b"cmd_none", b""),
    "a query": lambda raw: raw.replace(b"/ack HTTP", b"/ack?x=1 HTTP"),
    "a slash behind": lambda raw: raw.replace(b"/ack HTTP", b"/ack/ HTTP"),
    "HTTP/1.0": lambda raw: raw.replace(b"HTTP/1.1", b"HTTP/1.0"),
    "chunked": lambda raw: raw.replace(b"Content-Length: 20", b"Transfer-Encoding: chunked").replace(
        b'{"status": "failed"}', b'14\r\n{"status": "failed"}\r\n0\r\n\r\n'
    ),
    "length and chunks": lambda raw: raw.replace(b"Host: x", b"Host: x\r\nTransfer-Encoding: chunked"),
    "an encoding": lambda raw: raw.replace(b"Host: x", b"Host: x\r\nContent-Encoding: gzip"),
    "no host": lambda raw: raw.replace(b"Host: x\r\n", b""),
    "a bare line feed": lambda raw: raw.replace(b"Host: x", b"Host: x\nY: z"),
    "a bare line feed in the token": lambda raw: raw.replace(b"Bearer ", b"Bearer \n"),
    "PUT": lambda raw: raw.replace(b"POST", b"PUT"),
    "Connection: close": lambda raw: raw.replace(b"Host: x", b"Host: x\r\nConnection: close"),
    "a control character in the id": lambda raw: raw.replace(b"cmd_none", b"cmd\x01none"),
    "an extension": lambda raw: raw.replace(b"/ack", b"/extend"),
}


@pytest.mark.parametrize("name", ODD)
def test_both_lanes_respond_the_same(site: SiteServer, name: str) -> None:
    raw = ODD[name](post("cmd_none", "ack", b'{"status": "failed"}', site.collector))
    last = get("/nowhere", site.collector, "Connection: close")
    responses = []
    for port in (site.server.fast_port, site.server.plain_port):
        with RawConnection(port) as wire:
            wire.send(raw + last)
            answers = wire.responses_until_close()
        # The fast lane has its own error text for a request that is not HTTP.
        responses.append([each.status if each.status == 400 else each.without_date() for each in answers])
    assert responses[0] == responses[1]
