"""The receiver program: sinks, and a server that plays a script."""

from __future__ import annotations

import json
import os
import sqlite3
import stat
import threading
from pathlib import Path
from typing import Any

import pytest
from event_script import JWKS, LOGIN, SECRET, TOKEN, event, polls, reply, sets
from scripted_server import Lost, Reply, Request, ScriptedServer

from restante_client import BlockingEventReceiver, Event
from restante_client.agent.logs import Log
from restante_client.agent.main import main
from restante_client.agent.receiver.sinks import (
    ExecutableSink,
    Sink,
    SinkFailed,
    SinkGone,
    SqliteSink,
    StdoutSink,
    WebhookSink,
)
from restante_client.agent.receiver.work import ReceiverWork
from restante_client.agent.stopping import Stopper
from restante_client.events.jws import parse


def received(jti: str = "a") -> Event:
    token = event(jti)
    return Event(jti, token, parse(token).claims)


def script(folder: Path, text: str) -> str:
    file = folder / "handler"
    file.write_text(f"#!/bin/sh\n{text}\n")
    file.chmod(0o700)
    return str(file)


class TestSinks:
    def test_stdout_has_one_json_line_for_each_event(self, capsys: pytest.CaptureFixture[str]) -> None:
        for jti in ("a", "b"):
            StdoutSink().deliver(received(jti))
        lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
        assert [line["jti"] for line in lines] == ["a", "b"]
        assert lines[0]["claims"]["events"] == {"urn:x": {}}
        assert set(lines[0]) == {"jti", "iss", "received_at", "claims", "token"}

    def test_closed_stdout_ends_the_program(self, monkeypatch: pytest.MonkeyPatch) -> None:
        reading, writing = os.pipe()
        os.close(reading)
        with os.fdopen(writing, "w", buffering=1) as broken:
            monkeypatch.setattr("sys.stdout", broken)
            with pytest.raises(SinkGone):
                StdoutSink().deliver(received())
            monkeypatch.undo()
            # Closing flushes what is left: nobody reads it.
            os.dup2(os.open(os.devnull, os.O_WRONLY), writing)

    def test_executable_gets_the_event_and_its_jti(self, tmp_path: Path) -> None:
        command = [script(tmp_path, f'cat > "{tmp_path}/$RESTANTE_EVENT_JTI.$1"'), "json"]
        ExecutableSink(command, 30).deliver(received())
        assert json.loads((tmp_path / "a.json").read_text())["jti"] == "a"
        assert ExecutableSink(command, 30).check() == f"executable {command[0]}"

    @pytest.mark.parametrize(
        ("text", "message"), [("echo no disk >&2; exit 3", "ended with 3: no disk"), ("sleep 60 & wait", "within")]
    )
    def test_failed_or_slow_executable_has_not_taken_the_event(self, tmp_path: Path, text: str, message: str) -> None:
        with pytest.raises(SinkFailed, match=message):
            ExecutableSink([script(tmp_path, text)], 30 if "exit" in text else 0.3).deliver(received())

    def test_missing_executable_is_found_by_the_check(self, tmp_path: Path) -> None:
        sink = ExecutableSink([str(tmp_path / "none")], 1)
        with pytest.raises(SinkFailed):
            sink.check()
        with pytest.raises(SinkFailed):
            sink.deliver(received())

    def test_webhook_sends_an_idempotency_key(self, server: ScriptedServer) -> None:
        sink = WebhookSink(server.url + "/hook", 30, {"verify": False}, "Bearer secret")
        server.add(Reply(204), Reply(503, b"", {"Retry-After": "7"}), Lost(), Reply(405))
        sink.deliver(received())
        sent = server.requests[0]
        assert (sent.path, sent.headers["Idempotency-Key"]) == ("/hook", "a")
        assert sent.headers["Authorization"] == "Bearer secret"
        assert sent.json["claims"]["jti"] == "a"
        with pytest.raises(SinkFailed, match="503") as busy:
            sink.deliver(received())
        assert busy.value.retry_after_seconds == 7
        with pytest.raises(SinkFailed, match="does not answer"):
            sink.deliver(received())
        sink.close()

    def test_table_has_one_row_for_each_jti(self, tmp_path: Path) -> None:
        file = tmp_path / "events.db"
        for _ in range(2):
            sink = SqliteSink(file)
            assert str(file) in sink.check()
            for jti in ("a", "b"):
                sink.deliver(received(jti))
            sink.close()
        with sqlite3.connect(file) as database:
            rows = database.execute("SELECT jti, iss, claims FROM events ORDER BY rowid").fetchall()
        database.close()
        assert [(row[0], row[1]) for row in rows] == [("a", "https://bank.example"), ("b", "https://bank.example")]
        assert json.loads(rows[0][2])["events"] == {"urn:x": {}}

    def test_table_that_cannot_be_written_has_not_taken_the_event(self, tmp_path: Path) -> None:
        sink = SqliteSink(tmp_path / "none" / "events.db")
        with pytest.raises(SinkFailed):
            sink.deliver(received())
        sink.close()


class FailsFirst:
    """A sink that refuses its first events."""

    def __init__(self, failures: int, stopper: Stopper, count: int) -> None:
        self.failures = failures
        self.found: list[str] = []
        self._stopper = stopper
        self._count = count

    def deliver(self, event: Event) -> None:
        if self.failures:
            self.failures -= 1
            raise SinkFailed("not yet", 0)
        self.found.append(event.jti)
        if len(self.found) == self._count:
            self._stopper.is_stopped = True

    def check(self) -> str:
        return ""

    def close(self) -> None:
        return


class TestWork:
    def work(self, server: ScriptedServer, folder: Path, stopper: Stopper, sink: Sink) -> None:
        with BlockingEventReceiver(server.url, SECRET, folder / "s") as receiver:
            ReceiverWork(receiver, sink, stopper, Log("receiver"), backlog_max=100).run()

    def test_failed_sink_gets_the_same_event_again_in_order(self, server: ScriptedServer, tmp_path: Path) -> None:
        stopper = Stopper()
        sink = FailsFirst(1, stopper, 2)

        def idle(request: Request) -> Reply:
            # As a long poll: until the delivery is done.
            threading.Event().wait(0.05)
            server.add(idle)
            return sets()

        server.add(*LOGIN, sets(event("a"), event("b")), reply(JWKS), idle)
        self.work(server, tmp_path, stopper, sink)
        assert sink.found == ["a", "b"]
        assert polls(server)[1]["ack"] == ["a", "b"], "a failing sink does not delay the acknowledgement"

    def test_refused_client_goes_on_when_it_is_admitted_again(self, server: ScriptedServer, tmp_path: Path) -> None:
        stopper = Stopper()
        sink = FailsFirst(0, stopper, 1)

        def idle(request: Request) -> Reply:
            server.add(idle)
            return sets()

        server.add(*LOGIN, Reply(401), TOKEN, Reply(401), TOKEN, sets(event("a")), reply(JWKS), idle)
        self.work(server, tmp_path, stopper, sink)
        assert sink.found == ["a"]

    def test_sink_that_is_gone_ends_the_program(self, server: ScriptedServer, tmp_path: Path) -> None:
        class Gone(FailsFirst):
            def deliver(self, event: Event) -> None:
                raise SinkGone("closed")

        def idle(request: Request) -> Reply:
            server.add(idle)
            return sets()

        server.add(*LOGIN, sets(event("a")), reply(JWKS), idle)
        stopper = Stopper()
        with pytest.raises(SinkGone):
            self.work(server, tmp_path, stopper, Gone(0, stopper, 1))


class TestProgram:
    @pytest.fixture
    def config(self, server: ScriptedServer, tmp_path: Path) -> Path:
        (tmp_path / "secret").write_text("secret value\n")
        (tmp_path / "secret").chmod(0o600)
        file = tmp_path / "receiver.toml"
        file.write_text(
            f'server = "{server.url}"\nstate = "{tmp_path / "state"}"\nclient_id = "shop"\n'
            f'authentication = "client_secret_basic"\nsecret_file = "{tmp_path / "secret"}"\n'
            f'[sink]\nkind = "sqlite"\nfile = "{tmp_path / "events.db"}"\n'
        )
        return file

    def rows(self, folder: Path) -> list[Any]:
        database = sqlite3.connect(folder / "events.db")
        try:
            return [row[0] for row in database.execute("SELECT jti FROM events ORDER BY rowid")]
        finally:
            database.close()

    def test_once_delivers_everything_and_acknowledges(
        self, config: Path, server: ScriptedServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        server.add(*LOGIN, sets(event("a"), event("b"), more=True), reply(JWKS), sets(), sets(event("c")), sets())
        assert main(["receiver", "run", "--once", "--config", str(config)]) == 0
        assert self.rows(tmp_path) == ["a", "b", "c"]
        assert [body.get("ack") for body in polls(server)] == [None, ["a", "b"], None, ["c"]]
        assert main(["receiver", "status", "--json", "--config", str(config)]) == 0
        found = json.loads(capsys.readouterr().out)
        assert (found["stored"], found["to_acknowledge"], found["to_deliver"]) == (3, 0, 0)
        assert stat.S_IMODE((tmp_path / "state" / "state.db").stat().st_mode) == 0o600

    def test_doctor_gets_a_token_and_checks_the_sink(
        self, config: Path, server: ScriptedServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        server.add(*LOGIN, reply(JWKS), LOGIN[0], reply({"error": "invalid_client"}, 401))
        assert main(["receiver", "doctor", "--config", str(config)]) == 0
        assert not (tmp_path / "state").exists()
        assert main(["receiver", "doctor", "--config", str(config)]) == 1
        assert "FAILED  server: Unauthorized" in capsys.readouterr().out

    @pytest.mark.parametrize(
        ("line", "message"),
        [
            ('authentication = "tls_client_auth"', "certificate_file: expected"),
            ('authentication = "private_key_jwt"', "key_file: expected"),
            ('authentication = "none"', "authentication"),
        ],
    )
    def test_wrong_configuration_names_the_field(
        self, config: Path, capsys: pytest.CaptureFixture[str], line: str, message: str
    ) -> None:
        config.write_text(config.read_text().replace('authentication = "client_secret_basic"', line))
        assert main(["receiver", "run", "--config", str(config)]) == 2
        assert message in capsys.readouterr().err

    @pytest.mark.parametrize(("kind", "message"), [("webhook", "sink.url"), ("executable", "sink.command")])
    def test_sink_without_its_settings_is_refused(
        self, config: Path, capsys: pytest.CaptureFixture[str], kind: str, message: str
    ) -> None:
        config.write_text(config.read_text().replace('"sqlite"', f'"{kind}"'))
        assert main(["receiver", "run", "--config", str(config)]) == 2
        assert f"{message}: expected" in capsys.readouterr().err
