"""Poll, ACK and extend over HTTP, each case through the application and through the fast lane: the same bytes."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from restante.commands.parts import CommandsOptions
from restante.commands.signing import verify_signed
from restante.database.database import Database
from restante.database.migrate import migrate
from restante.database.sqlite import SqliteEngine
from tests.commands.field import Field, FieldServer, Hired
from tests.server.serving import Wire, WireAnswer

POLL = "/api/edge/v1/commands/poll"


class Shop:
    """A served field with one site, whose collector is known to the lane."""

    def __init__(self, database: Database, options: CommandsOptions | None = None) -> None:
        self.field = Field(database, options)
        self.site = self.field.add_site()
        self.miner = self.field.add_miner(self.site)
        self.hired = self.field.hire(self.site)
        self.server = FieldServer(self.field)
        self.server.remember(self.hired)

    def send(self, **wish: Any) -> str:
        return self.field.send(self.site, self.miner, **wish).command_id

    def ask(self, raw: bytes, port: int) -> WireAnswer:
        with Wire(port) as wire:
            return wire.ask(raw)


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shop]:
    yield from served(tmp_path_factory.mktemp("shop"), CommandsOptions(lease_seconds=600))


@pytest.fixture(scope="module")
def signing_shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shop]:
    options = CommandsOptions(is_signed=True, is_ack_nonce_required=True)
    yield from served(tmp_path_factory.mktemp("signing"), options)


def served(folder: Path, options: CommandsOptions) -> Iterator[Shop]:
    engine = SqliteEngine(folder / "restante.db")
    migrate(engine)
    database = Database(engine)
    shop = Shop(database, options)
    yield shop
    shop.server.close()
    database.close()


@pytest.fixture(params=["fast", "plain"])
def way(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def port_of(shop: Shop, way: str) -> int:
    return shop.server.fast_port if way == "fast" else shop.server.plain_port


def get(target: str, hired: Hired, *lines: str) -> bytes:
    head = [f"GET {target} HTTP/1.1", "Host: x", f"Authorization: Bearer {hired.token}", *lines, "", ""]
    return "\r\n".join(head).encode()


def post(command_id: str, what: str, body: Any, hired: Hired, *lines: str) -> bytes:
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    head = [
        f"POST /api/edge/v1/commands/{command_id}/{what} HTTP/1.1",
        "Host: x",
        f"Authorization: Bearer {hired.token}",
        *(lines or ["Content-Type: application/json"]),
        f"Content-Length: {len(raw)}",
        "",
        "",
    ]
    return "\r\n".join(head).encode() + raw


def told(answer: WireAnswer) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(answer.body)
    return found


def test_poll_and_ack(shop: Shop, way: str) -> None:
    sent = shop.send()
    hot = shop.server.lane.hot_requests
    answer = shop.ask(get(POLL, shop.hired), port_of(shop, way))
    body = told(answer)
    assert answer.status == 200
    assert answer.header(b"cache-control") == b"no-store"
    assert answer.header(b"content-type") == b"application/json"
    assert [command["command_id"] for command in body["commands"]] == [sent]
    assert (body["miner_command_count"], body["remote_command_count"], body["rate_limited_count"]) == (1, 0, 0)
    assert body["commands"][0]["signature"] is None
    ack = {"status": "succeeded", "result_code": 0, "nonce": body["commands"][0]["nonce"]}
    acked = shop.ask(post(sent, "ack", ack, shop.hired), port_of(shop, way))
    assert (acked.status, told(acked)) == (
        200,
        {"status": "ok", "command_id": sent, "command_status": "succeeded", "replayed": False},
    )
    again = shop.ask(post(sent, "ack", ack, shop.hired), port_of(shop, way))
    assert told(again)["replayed"] is True
    assert shop.server.lane.hot_requests == hot + (3 if way == "fast" else 0)


def test_an_empty_poll(shop: Shop, way: str) -> None:
    body = told(shop.ask(get(POLL, shop.hired), port_of(shop, way)))
    assert list(body) == [
        "commands",
        "miner_command_count",
        "remote_command_count",
        "rate_limited_count",
        "server_time",
    ]
    assert body["commands"] == []


def test_a_signed_poll(signing_shop: Shop, way: str) -> None:
    shop = signing_shop
    sent = shop.send(params='{"mode":"LOW","grund":"größer 🔥"}'.encode(), dedupe_key=f"key {way}")
    command = told(shop.ask(get(POLL, shop.hired), port_of(shop, way)))["commands"][0]
    assert verify_signed(command, shop.hired.secret).is_valid
    assert (command["sig_version"], command["sig_encoding"]) == ("HMAC-SHA256-CANONICAL-JSON-V1", "hex")
    bare = shop.ask(post(sent, "ack", {"status": "succeeded"}, shop.hired), port_of(shop, way))
    assert (bare.status, told(bare)["error"]) == (401, "NONCE_MISMATCH")
    wrong = {"status": "succeeded", "nonce": command["nonce"], "signature": "00"}
    refused = shop.ask(post(sent, "ack", wrong, shop.hired), port_of(shop, way))
    assert (refused.status, told(refused)["error"]) == (401, "SIGNATURE_INVALID")
    good = shop.ask(
        post(sent, "ack", {"status": "succeeded", "nonce": command["nonce"]}, shop.hired), port_of(shop, way)
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
def test_a_bad_query_is_named(shop: Shop, way: str, query: str, field: str) -> None:
    answer = shop.ask(get(POLL + query, shop.hired), port_of(shop, way))
    assert (answer.status, told(answer)["error"], told(answer)["field"]) == (400, "INVALID_REQUEST", field)


@pytest.mark.parametrize("query", ["?limit=50", "?limit=1&wait=0", "?wait=00", "?unknown=1"])
def test_a_good_query_is_answered(shop: Shop, way: str, query: str) -> None:
    assert shop.ask(get(POLL + query, shop.hired), port_of(shop, way)).status == 200


def test_zones_of_other_sites_and_none_are_denied_alike(shop: Shop, way: str) -> None:
    foreign = shop.field.add_zone(shop.field.add_site())
    said = [shop.ask(get(f"{POLL}?zone_id={zone}", shop.hired), port_of(shop, way)) for zone in (foreign, 999_999)]
    assert [each.status for each in said] == [403, 403]
    assert said[0].body == said[1].body
    assert told(said[0])["error"] == "ACCESS_DENIED"


def test_who_is_nobody_gets_nothing(shop: Shop, way: str) -> None:
    nobody = shop.hired._replace(token="ed_nobody")
    for raw in (get(POLL, nobody), post("cmd_1", "ack", {"status": "succeeded"}, nobody)):
        answer = shop.ask(raw, port_of(shop, way))
        assert (answer.status, told(answer)["error"]) == (401, "UNAUTHORIZED")
        assert answer.header(b"www-authenticate") == b"Bearer"


def test_refused_acks(shop: Shop, way: str) -> None:
    port = port_of(shop, way)
    other, stranger = shop.field.hire(shop.site), shop.field.hire(shop.field.add_site())
    shop.server.remember(other)
    shop.server.remember(stranger)
    sent = shop.send(ttl_sec=3600)
    ack = {"status": "failed", "message": way}
    assert told(shop.ask(post("cmd_none", "ack", ack, shop.hired), port))["error"] == "COMMAND_NOT_FOUND"
    assert told(shop.ask(post(sent, "ack", ack, stranger), port))["error"] == "ACCESS_DENIED"
    assert told(shop.ask(post(sent, "ack", ack, shop.hired), port))["error"] == "ACK_NOT_LEASE_OWNER"
    shop.ask(get(POLL, shop.hired), port)
    assert told(shop.ask(post(sent, "ack", ack, other), port))["error"] == "ACK_NOT_LEASE_OWNER"
    wrong = shop.ask(post(sent, "ack", {**ack, "nonce": "x"}, shop.hired), port)
    assert (wrong.status, told(wrong)["error"]) == (401, "NONCE_MISMATCH")
    assert shop.ask(post(sent, "ack", {"status": "rejected"}, shop.hired), port).status == 200
    ended = shop.ask(post(sent, "ack", ack, shop.hired), port)
    assert (ended.status, told(ended)["error"], told(ended)["command_status"]) == (409, "COMMAND_FINISHED", "failed")


@pytest.mark.parametrize(
    ("body", "field"),
    [
        (b"", "body"),
        (b"{", "body"),
        (b"[]", "body"),
        (b'{"status": "done"}', "status"),
        (b'{"status": "failed", "result_code": NaN}', "body"),
        (b'{"status": "failed", "message": "\\ud800"}', "body"),
        (b'{"status": "failed", "message": "\xff"}', "body"),
        (b'{"status": "failed", "after_snapshot": {"a": ' + b"[" * 5000, "body"),
    ],
)
def test_a_bad_ack_is_named_and_changes_nothing(shop: Shop, way: str, body: bytes, field: str) -> None:
    answer = shop.ask(post("cmd_1", "ack", body, shop.hired), port_of(shop, way))
    assert (answer.status, told(answer)["error"], told(answer)["field"]) == (400, "INVALID_REQUEST", field)


def test_another_media_type_is_refused(shop: Shop, way: str) -> None:
    raw = post("cmd_1", "ack", {"status": "failed"}, shop.hired, "Content-Type: text/plain")
    answer = shop.ask(raw, port_of(shop, way))
    assert (answer.status, told(answer)["error"]) == (415, "UNSUPPORTED_MEDIA_TYPE")


def test_a_very_long_id_is_not_found(shop: Shop, way: str) -> None:
    for what, body in (("ack", {"status": "failed"}), ("extend", {"lease_seconds": 5})):
        answer = shop.ask(post("c" * 300, what, body, shop.hired), port_of(shop, way))
        assert (answer.status, told(answer)["error"]) == (404, "COMMAND_NOT_FOUND")


def test_extend(shop: Shop, way: str) -> None:
    port = port_of(shop, way)
    sent = shop.send()
    command = told(shop.ask(get(POLL, shop.hired), port))["commands"][0]
    body = {"lease_seconds": 3600, "nonce": command["nonce"]}
    answer = shop.ask(post(sent, "extend", body, shop.hired), port)
    assert (answer.status, told(answer)["command_status"], told(answer)["lease_duration_sec"]) == (
        200,
        "dispatched",
        3600,
    )
    bad = shop.ask(post(sent, "extend", {"lease_seconds": 0}, shop.hired), port)
    assert (bad.status, told(bad)["field"]) == (400, "lease_seconds")
    shop.ask(post(sent, "ack", {"status": "succeeded"}, shop.hired), port)
    assert shop.ask(post(sent, "extend", body, shop.hired), port).status == 409


def test_a_long_poll_is_answered_when_a_command_comes(shop: Shop, way: str) -> None:
    port = port_of(shop, way)
    poll = shop.field.parts.poll
    with Wire(port) as wire:
        wire.send(get(f"{POLL}?wait=30", shop.hired))
        shop.server.until(lambda: poll.bell.waiting_count == 1)
        sent = shop.send()
        body = told(wire.answer())
    assert [command["command_id"] for command in body["commands"]] == [sent]
    shop.ask(post(sent, "ack", {"status": "succeeded"}, shop.hired), port)


def test_a_long_poll_ends_empty_when_its_time_is_over(shop: Shop, way: str) -> None:
    assert told(shop.ask(get(f"{POLL}?wait=1", shop.hired), port_of(shop, way)))["commands"] == []


def test_who_hangs_up_waits_no_more(shop: Shop, way: str) -> None:
    poll = shop.field.parts.poll
    with Wire(port_of(shop, way)) as wire:
        wire.send(get(f"{POLL}?wait=30", shop.hired))
        shop.server.until(lambda: poll.bell.waiting_count == 1)
    shop.server.until(lambda: poll.bell.waiting_count == 0)


def test_an_ack_may_arrive_in_any_two_pieces(shop: Shop) -> None:
    raw = post("cmd_none", "ack", {"status": "failed"}, shop.hired)
    with Wire(shop.server.fast_port) as wire:
        whole = wire.ask(raw).without_date()
        for cut in range(1, len(raw)):
            wire.send(raw[:cut])
            shop.server.call(int)  # the loop has turned: the first piece was read by itself
            assert wire.ask(raw[cut:]).without_date() == whole


def test_an_ack_whose_body_comes_later_is_hot_too(shop: Shop) -> None:
    raw = post("cmd_none", "ack", {"status": "failed"}, shop.hired)
    head = raw.index(b"\r\n\r\n") + 4
    before = shop.server.lane.hot_requests
    with Wire(shop.server.fast_port) as wire:
        wire.send(raw[:head])
        shop.server.call(int)
        assert wire.ask(raw[head:]).status == 404
    assert shop.server.lane.hot_requests == before + 1


def test_an_ack_whose_body_never_comes_is_cut_off(shop: Shop) -> None:
    raw = post("cmd_none", "ack", {"status": "failed"}, shop.hired)
    before = shop.server.lane.slow_senders_cut
    with Wire(shop.server.fast_port) as wire:
        answer = wire.ask(raw[:-3])
        assert answer.status == 408
        assert wire.is_closed_by_server()
    assert shop.server.lane.slow_senders_cut == before + 1


def test_acks_one_behind_the_other_are_all_answered(shop: Shop) -> None:
    raw = post("cmd_none", "ack", {"status": "failed"}, shop.hired)
    with Wire(shop.server.fast_port) as wire:
        wire.send(raw + raw + get(POLL, shop.hired))
        assert [wire.answer().status for _ in range(3)] == [404, 404, 200]
        assert wire.ask(raw).status == 404


def test_a_large_ack_is_the_applications(shop: Shop, way: str) -> None:
    body = {"status": "failed", "after_snapshot": {"a": "x" * 70_000}}
    answer = shop.ask(post("cmd_none", "ack", body, shop.hired), port_of(shop, way))
    assert (answer.status, told(answer)["field"]) == (400, "after_snapshot")


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
def test_both_protocols_say_the_same(shop: Shop, name: str) -> None:
    raw = ODD[name](post("cmd_none", "ack", b'{"status": "failed"}', shop.hired))
    last = get("/nowhere", shop.hired, "Connection: close")
    said = []
    for port in (shop.server.fast_port, shop.server.plain_port):
        with Wire(port) as wire:
            wire.send(raw + last)
            answers = wire.answers_to_the_end()
        # Only the lane puts its own words into the answer to what is no HTTP.
        said.append([each.status if each.status == 400 else each.without_date() for each in answers])
    assert said[0] == said[1]
