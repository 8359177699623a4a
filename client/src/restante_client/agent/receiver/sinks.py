"""Where events go. A sink gets one event at a time, oldest first, and the next one only after it has taken this one.

    stdout      one JSON line                                at least once
    executable  JSON on its standard input, exit code 0      at least once; RESTANTE_EVENT_JTI for its own check
    webhook     POST of the JSON, status 2xx                 at least once; Idempotency-Key is the jti
    sqlite      one row for each jti                         exactly once

An event that a sink refuses is given to it again later. No event is left out, so a sink that refuses one for ever stops
the delivery: the log names its jti.

The JSON of an event:

    {"jti": "…", "iss": "…", "received_at": "…", "claims": {…}, "token": "eyJ…"}
"""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Optional, Protocol

import httpx

from restante_client.agent import times
from restante_client.calls import retry_after
from restante_client.events.client import Event

OUTPUT_MAX = 500
_TABLE = (
    "CREATE TABLE IF NOT EXISTS events (jti TEXT PRIMARY KEY, iss TEXT, received_at TEXT NOT NULL,"
    " claims TEXT NOT NULL, token TEXT NOT NULL)"
)


class SinkFailed(Exception):
    """The sink did not take the event. `retry_after_seconds`: the least time until the next try, if it said one."""

    def __init__(self, message: str, retry_after_seconds: Optional[float] = None) -> None:
        super().__init__(message)
        self.retry_after_seconds = retry_after_seconds


class SinkGone(Exception):
    """The sink will not come back while this program runs."""


class Sink(Protocol):
    def deliver(self, event: Event) -> None:
        """Return when the sink has the event, or raise `SinkFailed` or `SinkGone`."""

    def check(self) -> str:
        """What `doctor` shows. Delivers nothing; raises if the sink cannot be used."""

    def close(self) -> None: ...


class StdoutSink:
    def deliver(self, event: Event) -> None:
        try:
            sys.stdout.write(json.dumps(described(event), ensure_ascii=False) + "\n")
            sys.stdout.flush()
        except OSError as error:
            raise SinkGone(f"stdout cannot be written: {error}") from None

    def check(self) -> str:
        return "JSON lines on stdout"

    def close(self) -> None:
        return


class ExecutableSink:
    """Runs a program for each event, in a process group of its own: one that takes too long ends with its children."""

    def __init__(self, command: Sequence[str], timeout_seconds: float) -> None:
        self._command = list(command)
        self._timeout_seconds = timeout_seconds

    def deliver(self, event: Event) -> None:
        body = json.dumps(described(event), ensure_ascii=False).encode()
        try:
            process = subprocess.Popen(  # noqa: S603
                self._command,
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                env={**os.environ, "RESTANTE_EVENT_JTI": event.jti},
                start_new_session=True,
            )
        except OSError as error:
            raise SinkFailed(f"the executable cannot be started: {error}") from None
        with process:
            try:
                _, errors = process.communicate(body, self._timeout_seconds)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                raise SinkFailed(f"the executable did not end within {self._timeout_seconds:g} s") from None
        if process.returncode != 0:
            said = errors[:OUTPUT_MAX].decode("utf-8", "replace").strip()
            raise SinkFailed(f"the executable ended with {process.returncode}: {said}")

    def check(self) -> str:
        program = Path(self._command[0])
        if not os.access(program, os.X_OK) or program.is_dir():
            raise SinkFailed(f"{program} is not an executable file")
        return f"executable {program}"

    def close(self) -> None:
        return


class WebhookSink:
    def __init__(
        self, url: str, timeout_seconds: float, http: Mapping[str, Any], authorization: Optional[str] = None
    ) -> None:
        self._url = url
        headers = {} if authorization is None else {"Authorization": authorization}
        self._http = httpx.Client(timeout=timeout_seconds, headers=headers, **http)

    def deliver(self, event: Event) -> None:
        try:
            response = self._http.post(self._url, json=described(event), headers={"Idempotency-Key": event.jti})
        except httpx.HTTPError as error:
            raise SinkFailed(f"the webhook does not answer: {type(error).__name__}: {error}") from None
        if not 200 <= response.status_code < 300:
            raise SinkFailed(f"the webhook answers with {response.status_code}", retry_after(response.headers))

    def check(self) -> str:
        """Any answer to a HEAD request shows that the webhook can be reached."""
        return f"webhook answers with {self._http.head(self._url).status_code}"

    def close(self) -> None:
        self._http.close()


class SqliteSink:
    """Rows of a table `events`. The file may be opened by other programs meanwhile."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._database: Optional[sqlite3.Connection] = None

    def deliver(self, event: Event) -> None:
        row = described(event)
        values = (row["jti"], row["iss"], row["received_at"], json.dumps(row["claims"]), row["token"])
        try:
            with self._opened() as database:
                database.execute("INSERT OR IGNORE INTO events VALUES (?, ?, ?, ?, ?)", values)
        except sqlite3.Error as error:
            raise SinkFailed(f"{self._file} cannot be written: {error}") from None

    def check(self) -> str:
        if not os.access(self._file if self._file.exists() else self._file.parent, os.W_OK):
            raise SinkFailed(f"{self._file} cannot be written")
        return f"table events in {self._file}"

    def close(self) -> None:
        if self._database is not None:
            self._database.close()
            self._database = None

    def _opened(self) -> sqlite3.Connection:
        if self._database is None:
            # One thread at a time delivers; another one may close.
            self._database = sqlite3.connect(self._file, timeout=30, check_same_thread=False)
            self._database.execute("PRAGMA journal_mode = WAL")
            # The receiver marks the event as handled afterwards: the row must be on disk by then.
            self._database.execute("PRAGMA synchronous = FULL")
            self._database.execute(_TABLE)
            self._database.commit()
        return self._database


def described(event: Event) -> dict[str, Any]:
    return {
        "jti": event.jti,
        "iss": event.claims.get("iss"),
        "received_at": times.now(),
        "claims": event.claims,
        "token": event.token,
    }
