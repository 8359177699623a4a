import http.server
import json
import socket
import stat
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from restante.commands.audit.audit_trail import Checkpoint
from restante.commands.audit.signed_heads import (
    AnchorFailed,
    AnchorTarget,
    RememberedHead,
    SignedHead,
    is_head,
    verified_head,
)
from restante.core.errors import BadInput
from restante.core.keyed_hash import KeyedHash

MAC = KeyedHash(b"k" * 32)
CHECKPOINT = Checkpoint(0, 7, bytes(range(32)), 1_800_000_000_000)
HEAD = SignedHead.of(CHECKPOINT, CHECKPOINT.signature(MAC))


class Webhook(http.server.BaseHTTPRequestHandler):
    bodies: list[bytes]
    status = 204

    def do_POST(self) -> None:
        type(self).bodies.append(self.rfile.read(int(self.headers["content-length"])))
        self.send_response(type(self).status)
        self.send_header("location", "/elsewhere")
        self.end_headers()

    def log_message(self, *_arguments: object) -> None:
        """Log nothing."""


@pytest.fixture
def webhook() -> Iterator[str]:
    Webhook.bodies, Webhook.status = [], 204
    with http.server.HTTPServer(("127.0.0.1", 0), Webhook) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield f"http://user:secret@127.0.0.1:{server.server_port}/hook?key=secret"
        server.shutdown()
        thread.join()


def test_signed_head_is_verified() -> None:
    assert is_head(HEAD.line())
    assert verified_head(HEAD.line(), MAC, "line 1") == CHECKPOINT


@pytest.mark.parametrize("field", ["at", "n", "hash", "signature", "chain", "restante_audit_head"])
def test_changed_head_is_refused(field: str) -> None:
    fields = json.loads(HEAD.line())
    fields[field] = fields[field] + 1 if isinstance(fields[field], int) else "00" * 32
    with pytest.raises(BadInput):
        verified_head(json.dumps(fields).encode(), MAC, "line 1")


@pytest.mark.parametrize(
    "line", [b"", b"{}", b"x", HEAD.line()[:-1], HEAD.line().replace(b'"hash":"00', b'"hash":"xx')]
)
def test_other_lines_are_refused(line: bytes) -> None:
    with pytest.raises(BadInput, match="line 3"):
        verified_head(line, MAC, "line 3")


def test_head_is_remembered_in_a_private_file(tmp_path: Path) -> None:
    remembered = RememberedHead(tmp_path, MAC)
    assert remembered.read() is None
    assert remembered.checkpoints() == []
    remembered.write(HEAD)
    remembered.write(HEAD)
    assert remembered.read() == CHECKPOINT
    assert remembered.checkpoints() == [CHECKPOINT]
    assert [path.name for path in tmp_path.iterdir()] == ["audit.head"]
    assert stat.S_IMODE(remembered.path.stat().st_mode) == 0o600


def test_changed_file_is_no_anchor(tmp_path: Path) -> None:
    remembered = RememberedHead(tmp_path, KeyedHash(b"x" * 32))
    remembered.write(HEAD)
    assert remembered.checkpoints() == []
    with pytest.raises(BadInput):
        remembered.read()


def test_anchors_are_appended_to_a_file(tmp_path: Path) -> None:
    target = AnchorTarget(str(tmp_path / "anchors"))
    target.send(HEAD)
    target.send(HEAD)
    assert (tmp_path / "anchors").read_bytes() == 2 * (HEAD.line() + b"\n")


def test_anchor_is_sent_to_syslog(tmp_path: Path) -> None:
    path = tmp_path / "log"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as log:
        log.bind(str(path))
        log.settimeout(10)
        AnchorTarget(f"syslog:{path}").send(HEAD)
        assert log.recv(4096) == b"<85>restante: audit head " + HEAD.line()


def test_anchor_is_posted_to_a_webhook(webhook: str) -> None:
    target = AnchorTarget(webhook.replace("user:secret@", ""))
    target.send(HEAD)
    assert Webhook.bodies == [HEAD.line()]


@pytest.mark.parametrize("status", [302, 400, 500])
def test_refusing_webhook_fails_and_is_not_followed(webhook: str, status: int) -> None:
    Webhook.status = status
    with pytest.raises(AnchorFailed):
        AnchorTarget(webhook.replace("user:secret@", "")).send(HEAD)
    assert len(Webhook.bodies) == 1


@pytest.mark.parametrize("address", ["syslog:/none/log", "/none/anchors", "http://127.0.0.1:1/"])
def test_unreachable_target_fails(address: str) -> None:
    with pytest.raises(AnchorFailed):
        AnchorTarget(address).send(HEAD)


def test_shown_address_has_no_secret(webhook: str) -> None:
    target = AnchorTarget(webhook)
    assert "secret" not in f"{target} {target!r}"
    assert str(target).startswith("http://127.0.0.1:")
    assert str(AnchorTarget("/var/anchors")) == "/var/anchors"


@pytest.mark.parametrize("address", ["", "ftp://host/", "https://", "a\nb"])
def test_invalid_address_is_refused(address: str) -> None:
    with pytest.raises(ValueError, match="syslog"):
        AnchorTarget(address)
