"""uvicorn's HTTP protocol with bounds for the request line, the headers and the trailers of a request.

    bytes ─▶ slices of at most 64 KiB ─▶ parser ─▶ callbacks count lines and bytes ─▶ over a bound: 414 or 431, closed

The parser keeps a value until its line ends, and reports nothing meanwhile. Therefore the bytes that arrive without a
callback are counted, too.

Invariants: a request over a bound never reaches the application, and costs at most a few slices of memory. Trailers are
checked and dropped: they are not headers.
"""

from typing import Any

import httptools
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from restante.core.errors import BadInput, RestanteError
from restante.web.response import ApiResponse
from restante.web.routes import ResponseFormat

# RFC 9112 recommends at least 8,000 bytes.
TARGET_BYTES_MAX = 8192
# Of the headers, and again of the trailers.
FIELD_BYTES_MAX = 65_536
FIELD_LINES_MAX = 100
# Requests that wait until an earlier one on their connection is answered.
PIPELINED_MAX = 100
_SLICE_BYTES = 65_536
# The colon, the space and the line end of a field.
_LINE_OVERHEAD = 4


class TargetTooLong(RestanteError):
    """The request target is too long: expected at most 8192 bytes."""

    status = 414


class FieldsTooLarge(RestanteError):
    """The headers or trailers are too large: expected at most 100 lines and 65536 bytes."""

    status = 431


def response_bytes(response: ApiResponse, date_line: bytes) -> bytes:
    """All bytes of a response."""
    parts = [STATUS_LINE[response.status], date_line]
    parts += [b"%b: %b\r\n" % header for header in response.headers]
    if response.status != 204:
        parts.append(b"content-length: %d\r\n" % len(response.body))
    parts += (b"\r\n", response.body)
    return b"".join(parts)


def refusal_bytes(response_format: ResponseFormat, error: RestanteError, date_line: bytes) -> bytes:
    """All bytes of a response that is the last one of its connection."""
    return response_bytes(response_format.error(error).with_headers((b"connection", b"close")), date_line)


class BoundedHttpProtocol(HttpToolsProtocol):
    response_format: ResponseFormat

    # Class attributes are the initial values: the fast lane creates uvicorn's state late.
    cycle: Any = None
    _refusal: RestanteError | None = None
    _field_bytes = 0
    _field_lines = 0
    _is_head_complete = False
    _has_progress = False
    _silent_bytes = 0  # received since the last callback of the parser

    def data_received(self, data: bytes) -> None:
        for start in range(0, len(data), _SLICE_BYTES):
            if self._refusal is None:
                self._parse(data[start : start + _SLICE_BYTES])

    def _parse(self, data: bytes) -> None:
        self._has_progress = False
        super().data_received(data)
        if self._has_progress:
            self._silent_bytes = 0
            return
        self._silent_bytes += len(data)
        if self._silent_bytes > FIELD_BYTES_MAX and self._refusal is None:
            self._refusal = FieldsTooLarge()
            self.refuse(self._refusal)

    def on_message_begin(self) -> None:
        self._has_progress = True
        self._is_head_complete = False
        self._field_bytes = self._field_lines = 0
        super().on_message_begin()

    def on_url(self, url: bytes) -> None:
        self._has_progress = True
        if len(self.url) + len(url) > TARGET_BYTES_MAX:
            self._stop_parsing(TargetTooLong())
        super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        self._has_progress = True
        self._field_lines += 1
        self._field_bytes += len(name) + len(value) + _LINE_OVERHEAD
        if self._field_lines > FIELD_LINES_MAX or self._field_bytes > FIELD_BYTES_MAX:
            self._stop_parsing(FieldsTooLarge())
        if not self._is_head_complete:
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        self._has_progress = True
        self._is_head_complete = True
        self._field_bytes = self._field_lines = 0
        if len(self.pipeline) >= PIPELINED_MAX:
            self._stop_parsing(BadInput("request", f"at most {PIPELINED_MAX} requests before their responses"))
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        self._has_progress = True
        super().on_body(body)

    def on_message_complete(self) -> None:
        self._has_progress = True
        super().on_message_complete()

    def _stop_parsing(self, refusal: RestanteError) -> None:
        """End the parser's work on this connection; uvicorn then calls `send_400_response`."""
        self._refusal = refusal
        raise httptools.HttpParserError

    def send_400_response(self, _msg: str) -> None:
        self.refuse(self._refusal or BadInput("request", "valid HTTP/1.1"))

    def refuse(self, error: RestanteError) -> None:
        """Send the error as the last response of this connection. After the start of another response, only close."""
        cycle = self.cycle
        if cycle is None or not cycle.response_started or cycle.response_complete:
            self.transport.write(refusal_bytes(self.response_format, error, self.date_line()))
        self.transport.close()

    def date_line(self) -> bytes:
        """The Date header line."""
        return b"".join(b"%b: %b\r\n" % pair for pair in self.server_state.default_headers)


def bounded_protocol_class(response_format: ResponseFormat) -> type[BoundedHttpProtocol]:
    """Make the protocol class for uvicorn's `http` option, without the fast lane."""
    return type("Bounded", (BoundedHttpProtocol,), {"response_format": response_format})
