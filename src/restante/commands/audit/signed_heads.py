"""Signed heads of the main chain, outside the database: the one in the data folder, and anchors.

    {"restante_audit_head": 1, "at", "chain": 0, "n", "hash", "signature"}      one line of JSON

A signed head is the checkpoint of chain 0. It proves later that the trail still has this row, and with it all heads
that chain 0 had recorded by then. A server stores the newest one in its data folder (`RememberedHead`). An anchor is
a copy at a place that the people who are audited cannot reach: a file, syslog or a webhook (`AnchorTarget`).
"""

import hmac
import os
import secrets
import socket
import urllib.request
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar
from urllib.error import URLError
from urllib.parse import urlsplit

import msgspec

from restante.commands.audit.audit_trail import ROOT_CHAIN, Checkpoint
from restante.core.errors import BadInput
from restante.core.keyed_hash import KeyedHash

VERSION = 1
FILE_NAME = "audit.head"
SYSLOG_SOCKET = "/dev/log"
WEBHOOK_SECONDS = 10.0
# Facility authpriv, severity notice.
_SYSLOG_PRIORITY = 10 * 8 + 5
_encoder = msgspec.json.Encoder()


class SignedHead(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    restante_audit_head: int = VERSION
    at: int
    chain: int = ROOT_CHAIN
    n: int
    hash: str
    signature: str

    @classmethod
    def of(cls, checkpoint: Checkpoint, signature: bytes) -> "SignedHead":
        return cls(at=checkpoint.at, n=checkpoint.n, hash=checkpoint.hash.hex(), signature=signature.hex())

    def line(self) -> bytes:
        return _encoder.encode(self)

    def checkpoint(self) -> Checkpoint:
        return Checkpoint(self.chain, self.n, bytes.fromhex(self.hash), self.at)


def verified_head(line: bytes, mac: KeyedHash, place: str) -> Checkpoint:
    """The checkpoint of a line; raise BadInput if it is not a signed head of this trail."""
    try:
        head = msgspec.json.decode(line, type=SignedHead)
        checkpoint, signature = head.checkpoint(), bytes.fromhex(head.signature)
    except (msgspec.MsgspecError, ValueError):
        raise BadInput(place, "a signed audit head") from None
    if head.restante_audit_head != VERSION or head.chain != ROOT_CHAIN:
        raise BadInput(place, f"a signed audit head of version {VERSION}")
    if not hmac.compare_digest(checkpoint.signature(mac), signature):
        raise BadInput(place, "an unchanged audit head, signed with this trail's key")
    return checkpoint


def is_head(line: bytes) -> bool:
    return b'"restante_audit_head"' in line[:64]


class RememberedHead:
    """The newest head that this server has seen, in a file of its data folder."""

    def __init__(self, folder: Path, mac: KeyedHash) -> None:
        self.folder = folder
        self.path = folder / FILE_NAME
        self._mac = mac

    def read(self) -> Checkpoint | None:
        """The remembered head; None if there is none. Raises BadInput if the file was changed."""
        try:
            line = self.path.read_bytes()
        except FileNotFoundError:
            return None
        return verified_head(line, self._mac, str(self.path))

    def checkpoints(self) -> Sequence[Checkpoint]:
        """The remembered head as an anchor. A file that was changed proves nothing."""
        with suppress(BadInput):
            head = self.read()
            return [] if head is None else [head]
        return []

    def write(self, head: SignedHead) -> None:
        draft = self.path.with_name(f".{self.path.name}.{secrets.token_hex(4)}")
        try:
            _write(draft, head.line() + b"\n", os.O_CREAT | os.O_EXCL)
            draft.replace(self.path)
        finally:
            draft.unlink(missing_ok=True)


class AnchorFailed(Exception):
    """The head could not be written to its target."""


@dataclass(frozen=True, slots=True)
class AnchorTarget:
    """A place for signed heads: `syslog`, `syslog:SOCKET`, a URL of a webhook, or the path of a file."""

    expected: ClassVar[str] = "syslog, an http or https URL, or the path of a file"

    address: str = field(repr=False)

    def __post_init__(self) -> None:
        is_url = "://" in self.address
        if not self.address or not self.address.isprintable() or (is_url and not self._is_webhook):
            raise ValueError(self.expected)

    def __str__(self) -> str:
        """Without the parts of a URL that may be secret."""
        if not self._is_webhook:
            return self.address
        url = urlsplit(self.address)
        return f"{url.scheme}://{url.netloc.rpartition('@')[2]}/…"

    @property
    def _is_webhook(self) -> bool:
        return self.address.startswith(("http://", "https://")) and bool(urlsplit(self.address).hostname)

    def send(self, head: SignedHead) -> None:
        """Write the head; blocks. Raises AnchorFailed."""
        try:
            if self._is_webhook:
                _post(self.address, head.line())
            elif self.address == "syslog" or self.address.startswith("syslog:"):
                _log(self.address.partition(":")[2] or SYSLOG_SOCKET, head.line())
            else:
                _write(Path(self.address), head.line() + b"\n", os.O_CREAT | os.O_APPEND)
        except URLError as error:
            raise AnchorFailed(str(error.reason)) from None
        except (OSError, ValueError) as error:
            raise AnchorFailed(str(error)) from None


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_arguments: Any) -> None:
        return None


def _post(url: str, body: bytes) -> None:
    request = urllib.request.Request(url, body, {"content-type": "application/json"})  # noqa: S310 — http and https
    with urllib.request.build_opener(_NoRedirects).open(request, timeout=WEBHOOK_SECONDS) as response:
        response.read(1024)


def _log(path: str, line: bytes) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sock:
        sock.settimeout(WEBHOOK_SECONDS)
        sock.connect(path)
        sock.send(b"<%d>restante: audit head %b" % (_SYSLOG_PRIORITY, line))


def _write(path: Path, content: bytes, flags: int) -> None:
    descriptor = os.open(path, os.O_WRONLY | flags, 0o600)
    try:
        os.write(descriptor, content)
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
