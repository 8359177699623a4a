"""Reading a JWKS, the public keys of an issuer, from an address or a file: bounded in size and time.

Only public keys that may sign are taken; one that is not understood is left out, as the issuer may use
kinds of keys we do not know for other purposes. Blocking: for a thread, not for the event loop.
"""

import time
import urllib.request
from collections.abc import Iterable
from http.client import HTTPException, HTTPResponse
from pathlib import Path
from typing import Any

import msgspec
from joserfc.errors import JoseError
from joserfc.jwk import Key, import_key

JWKS_BYTES_MAX = 256 * 1024
FETCH_SECONDS_MAX = 5.0
_CHUNK_BYTES = 16 * 1024
_PUBLIC_KINDS = ("RSA", "EC", "OKP")


class _Document(msgspec.Struct):
    keys: list[dict[str, Any]]


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """The configured address is the one that is trusted, not where it points to."""

    def redirect_request(self, *_request: Any) -> None:
        return None


def load(source: str) -> dict[str, Key]:
    """The keys by their names; OSError or ValueError if they cannot be had."""
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
        # Plain http is allowed to this machine only, and no proxy is this machine.
        handlers.append(urllib.request.ProxyHandler({}))
    try:
        with urllib.request.build_opener(*handlers).open(address, timeout=FETCH_SECONDS_MAX) as response:
            return _bounded(_body(response), address)
    except HTTPException as error:
        raise OSError(f"{address}: {error!r}") from None


def _body(response: HTTPResponse) -> bytes:
    """The whole body. The socket's time-out counts for each read anew: their sum has a deadline too."""
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


def _usable(keys: Iterable[dict[str, Any]]) -> dict[str, Key]:
    found: dict[str, Key] = {}
    for described in keys:
        kid, kind, use = described.get("kid"), described.get("kty"), described.get("use", "sig")
        if isinstance(kid, str) and kind in _PUBLIC_KINDS and use == "sig" and "d" not in described:
            try:
                found.setdefault(kid, import_key(described))
            except (JoseError, ValueError, TypeError, KeyError):
                continue
    return found
