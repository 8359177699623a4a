"""Reads a JWKS, the public keys of an issuer, from an address or a file: bounded in size and time.

Only public signature keys are used. A key that is not understood is skipped: the issuer may use other types of keys for
other purposes. An RSA key of fewer than 2048 bits is skipped, too: its signatures can be forged.

Blocking: call it in a thread, not on the event loop.
"""

import base64
import time
import urllib.request
from collections.abc import Iterable
from http.client import HTTPException, HTTPResponse
from pathlib import Path
from typing import Any

import msgspec
import structlog
from joserfc.errors import JoseError
from joserfc.jwk import Key, import_key

log = structlog.get_logger()

JWKS_BYTES_MAX = 256 * 1024
FETCH_SECONDS_MAX = 5.0
_CHUNK_BYTES = 16 * 1024
_PUBLIC_KEY_TYPES = ("RSA", "EC", "OKP")
RSA_BITS_MIN = 2048


class _Document(msgspec.Struct):
    keys: list[dict[str, Any]]


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """Only the configured address is trusted, not an address it redirects to."""

    def redirect_request(self, *_request: Any) -> None:
        return None


def load(source: str) -> dict[str, Key]:
    """The keys by their `kid`; raises OSError or ValueError if they cannot be read."""
    raw = _fetched(source) if source.startswith(("https://", "http://")) else _read(Path(source))
    try:
        document = msgspec.json.decode(raw, type=_Document)
    except msgspec.MsgspecError as error:
        raise ValueError(f"{source} is not a JWKS: {error}") from None
    return _usable(document.keys)


def _read(path: Path) -> bytes:
    with path.open("rb") as file:
        raw = file.read(JWKS_BYTES_MAX + 1)
    return _bounded(raw, str(path))


def _fetched(address: str) -> bytes:
    handlers: list[urllib.request.BaseHandler] = [_NoRedirects()]
    if address.startswith("http://"):
        # Plain http is allowed to this machine only, so no proxy may be used.
        handlers.append(urllib.request.ProxyHandler({}))
    try:
        with urllib.request.build_opener(*handlers).open(address, timeout=FETCH_SECONDS_MAX) as response:
            return _bounded(_body(response), address)
    except HTTPException as error:
        raise OSError(f"{address}: {error!r}") from None


def _body(response: HTTPResponse) -> bytes:
    """The whole body. The socket's time-out applies to each read, so all reads together have a deadline too."""
    deadline = time.monotonic() + FETCH_SECONDS_MAX
    raw = b""
    while len(raw) <= JWKS_BYTES_MAX and (chunk := response.read1(_CHUNK_BYTES)):
        raw += chunk
        if time.monotonic() > deadline:
            raise TimeoutError("the keys did not arrive in time")
    return raw


def _bounded(raw: bytes, source: str) -> bytes:
    if len(raw) > JWKS_BYTES_MAX:
        raise ValueError(f"{source} is larger than {JWKS_BYTES_MAX} bytes")
    return raw


def rsa_bits(modulus: str) -> int:
    """The size of an RSA key with this modulus (`n`); raises ValueError or TypeError if it is none."""
    return int.from_bytes(base64.urlsafe_b64decode(modulus + "=" * (-len(modulus) % 4))).bit_length()


def _usable(keys: Iterable[dict[str, Any]]) -> dict[str, Key]:
    found: dict[str, Key] = {}
    for key in keys:
        kid, key_type, use = key.get("kid"), key.get("kty"), key.get("use", "sig")
        if isinstance(kid, str) and key_type in _PUBLIC_KEY_TYPES and use == "sig" and "d" not in key:
            try:
                if key_type == "RSA" and rsa_bits(key["n"]) < RSA_BITS_MIN:
                    log.warning("issuer key skipped: RSA of fewer than 2048 bits", kid=kid)
                    continue
                found.setdefault(kid, import_key(key))
            except (JoseError, ValueError, TypeError, KeyError):
                continue
    return found
