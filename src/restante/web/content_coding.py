"""Compressed request bodies: `Content-Encoding: gzip`, with a limit on the decompressed size.

A few hundred bytes can expand to gigabytes, so decompression stops at the limit. Collectors in the field send gzip as
`application/octet-stream`, so `read_batch_body` accepts that type too: with `Content-Encoding: gzip`, or without it if
the body begins as gzip does.
"""

import asyncio
import zlib

from starlette.requests import Request

from restante.core.errors import BadInput, TooLarge, WrongMediaType
from restante.web.request import media_type, read_body, require_json

_GZIP = 16 + zlib.MAX_WBITS
_GZIP_START = b"\x1f\x8b"
# Each member copies the rest of the body: thousands of empty members would cost more than any content.
MEMBERS_MAX = 64


async def read_batch_body(request: Request, sent_bytes_max: int, bytes_max: int) -> bytes:
    """Read JSON, plain or compressed, within limits for its size as sent and decompressed."""
    is_octets = media_type(request) == "application/octet-stream"
    if not is_octets:
        require_json(request)
    body = await read_body(request, sent_bytes_max)
    encoding = ", ".join(request.headers.getlist("content-encoding"))
    if not encoding and is_octets and body.startswith(_GZIP_START):
        encoding = "gzip"
    # Decompressing in the event loop would delay every other request.
    return await asyncio.to_thread(decompress, body, encoding, bytes_max) if encoding else body


def decompress(body: bytes, encoding: str, bytes_max: int) -> bytes:
    """Return the decoded body; BadInput if the encoding is invalid, TooLarge beyond the limit."""
    match encoding.strip().lower():
        case "" | "identity":
            return body
        case "gzip" | "x-gzip":
            return _gunzip(body, bytes_max)
        case _:
            raise WrongMediaType("Content-Encoding must be gzip or absent")


def _gunzip(body: bytes, bytes_max: int) -> bytes:
    """Decompress all members of the gzip file."""
    parts: list[bytes] = []
    left = bytes_max
    while body or not parts:
        member = zlib.decompressobj(_GZIP)
        try:
            part = member.decompress(body, left + 1)
        except zlib.error:
            raise BadInput("body", "valid gzip") from None
        left -= len(part)
        if left < 0:
            raise TooLarge(f"the body is larger than {bytes_max} bytes when decompressed")
        if not member.eof:
            raise BadInput("body", "whole gzip")
        parts.append(part)
        body = member.unused_data
        if len(parts) > MEMBERS_MAX:
            raise BadInput("body", f"at most {MEMBERS_MAX} gzip members")
    return b"".join(parts)
