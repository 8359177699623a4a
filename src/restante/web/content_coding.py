"""Request bodies that come compressed: `Content-Encoding: gzip`, bounded while they are unpacked.

A few hundred bytes can stand for gigabytes: no more than the bound is ever unpacked.
"""

import asyncio
import zlib

from starlette.requests import Request

from restante.core.errors import BadInput, TooLarge, WrongMediaType
from restante.web.ask import read_body, require_json

_GZIP = 16 + zlib.MAX_WBITS
# The rest of the body is copied at each: thousands of empty ones would cost more than any content.
MEMBERS_MAX = 64


async def read_json_body(request: Request, packed_bytes_max: int, bytes_max: int) -> bytes:
    """The body of a JSON request, plain or packed; how large it may be as it is sent, and when it is unpacked."""
    require_json(request)
    body = await read_body(request, packed_bytes_max)
    encoding = ", ".join(request.headers.getlist("content-encoding"))
    # Unpacking takes time that everybody else would wait for.
    return await asyncio.to_thread(unpacked, body, encoding, bytes_max) if encoding else body


def unpacked(body: bytes, encoding: str, bytes_max: int) -> bytes:
    """The body as it was before it was encoded; BadInput where it is not so encoded, TooLarge beyond the bound."""
    match encoding.strip().lower():
        case "" | "identity":
            return body
        case "gzip" | "x-gzip":
            return _gunzipped(body, bytes_max)
        case _:
            raise WrongMediaType("the body's Content-Encoding must be gzip, or there must be none")


def _gunzipped(body: bytes, bytes_max: int) -> bytes:
    """All members of the file, one after another, as the format allows."""
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
            raise TooLarge(f"the body is larger than {bytes_max} bytes when unpacked")
        if not member.eof:
            raise BadInput("body", "whole gzip")
        parts.append(part)
        body = member.unused_data
        if len(parts) > MEMBERS_MAX:
            raise BadInput("body", f"at most {MEMBERS_MAX} gzip members")
    return b"".join(parts)
