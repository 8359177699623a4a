import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar

import pytest
from joserfc.jwk import ECKey, OctKey, OKPKey, RSAKey

from restante.identity.jwt import jwks

EC = ECKey.generate_key("P-256").as_dict(private=False)
OKP = OKPKey.generate_key("Ed25519").as_dict(private=False)
RSA = RSAKey.generate_key(2048).as_dict(private=False)


def document(*keys: dict[str, Any]) -> bytes:
    return json.dumps({"keys": keys}).encode()


class JwksHandler(BaseHTTPRequestHandler):
    pages: ClassVar[dict[str, tuple[int, dict[str, str], bytes]]] = {}

    def do_GET(self) -> None:
        status, headers, body = self.pages[self.path]
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        return


@pytest.fixture
def address() -> Iterator[str]:
    JwksHandler.pages = {
        "/keys": (200, {}, document({**EC, "kid": "a"})),
        "/moved": (302, {"Location": "/keys"}, b""),
        "/broken": (500, {}, document({**EC, "kid": "a"})),
        "/huge": (200, {}, document({**EC, "kid": "a"}) + b" " * jwks.JWKS_BYTES_MAX),
    }
    server = ThreadingHTTPServer(("127.0.0.1", 0), JwksHandler)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


def test_keys_are_read_from_an_address(address: str) -> None:
    assert jwks.load(f"{address}/keys").keys() == {"a"}


@pytest.mark.parametrize("path", ["/moved", "/broken"])
def test_redirect_and_error_status_are_refused(address: str, path: str) -> None:
    with pytest.raises(OSError, match="HTTP Error"):
        jwks.load(address + path)


def test_too_large_response_is_refused(address: str) -> None:
    with pytest.raises(ValueError, match="larger"):
        jwks.load(f"{address}/huge")


def test_unreachable_address_is_refused() -> None:
    with pytest.raises(OSError, match="refused"):
        jwks.load("http://127.0.0.1:1/keys")


def test_keys_are_read_from_a_file(tmp_path: Path) -> None:
    path = tmp_path / "keys.json"
    path.write_bytes(document({**EC, "kid": "a"}, {**OKP, "kid": "b", "use": "sig"}, {**RSA, "kid": "c"}))
    assert jwks.load(str(path)).keys() == {"a", "b", "c"}


def test_missing_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="No such file"):
        jwks.load(str(tmp_path / "keys.json"))


def test_too_large_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "keys.json"
    path.write_bytes(document({**EC, "kid": "a"}) + b" " * jwks.JWKS_BYTES_MAX)
    with pytest.raises(ValueError, match="larger"):
        jwks.load(str(path))


@pytest.mark.parametrize("content", [b"", b"[]", b"{}", b'{"keys": 1}', b'{"keys": ["x"]}', b"\xff"])
def test_other_content_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "keys.json"
    path.write_bytes(content)
    with pytest.raises(ValueError, match="not a JWKS"):
        jwks.load(str(path))


@pytest.mark.parametrize(
    "unusable",
    [
        EC,
        {**EC, "kid": 5},
        {**EC, "kid": "x", "use": "enc"},
        {**EC, "kid": "x", "x": "!"},
        {**OctKey.generate_key(256).as_dict(), "kid": "x"},
        {**ECKey.generate_key("P-256").as_dict(private=True), "kid": "x"},
        {"kid": "x", "kty": "new kind"},
        {"kid": "x"},
        {"kid": "x", "kty": ["EC"]},
    ],
)
def test_unusable_key_is_skipped(tmp_path: Path, unusable: dict[str, Any]) -> None:
    path = tmp_path / "keys.json"
    path.write_bytes(document(unusable, {**EC, "kid": "good"}))
    assert jwks.load(str(path)).keys() == {"good"}


def test_first_of_two_keys_with_one_kid_is_used(tmp_path: Path) -> None:
    path = tmp_path / "keys.json"
    path.write_bytes(document({**EC, "kid": "a"}, {**OKP, "kid": "a"}))
    assert jwks.load(str(path))["a"].key_type == "EC"
