"""The framework of `restante-agent`: arguments, configuration, exit codes, logs and the clean end."""

from __future__ import annotations

import io
import json
import os
import signal
import stat
import subprocess
import sys
import threading
import time
from argparse import Namespace
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Literal, Optional

import pytest
from msgspec import Meta

import restante_client
from restante_client.agent import config as configuration
from restante_client.agent import logs, main
from restante_client.agent.config import AgentConfig, ConfigError, Section
from restante_client.agent.program import Check, Command, ExitCode, Program, ProgramError, checked
from restante_client.agent.stopping import StoppableRuntime, Stopped, Stopper
from restante_client.errors import Forbidden, SessionEnded, StateError, Unreachable
from restante_client.runtime import run_blocking


class Limits(Section, frozen=True, kw_only=True):
    mode: Annotated[Literal["a", "b"], Meta(description="The mode.")] = "a"
    count: Annotated[int, Meta(ge=1, description="The count.")] = 3


class EchoConfig(AgentConfig, frozen=True, kw_only=True):
    words: Annotated[list[str], Meta(description="What to say.")] = []  # noqa: RUF012
    limits: Annotated[Limits, Meta(description="The limits.")] = Limits()

    def problems(self) -> Iterator[tuple[str, str]]:
        if self.limits.count > len(self.words) > 0:
            yield "limits.count", "at most as many as words"


class Echo(Program[EchoConfig]):
    config_type = EchoConfig
    error: Optional[BaseException] = None

    def run(self, *, is_once: bool) -> ExitCode:
        if self.error is not None:
            raise self.error
        self.log.info("said", words=self.config.words)
        while not is_once and not self.context.stopper.is_stopped:
            self.context.stopper.pause(3600)
        return ExitCode.done

    def status(self) -> dict[str, Any]:
        return {"words": self.config.words, "is_running": self.is_running(), "has_state": self.context.has_state}

    def doctor(self) -> Iterator[Check]:
        yield Check("fine", True, "all of it")
        yield checked("broken", lambda: str(1 // len(self.config.words)), "say something")

    def say(self, parsed: Namespace) -> ExitCode:
        sys.stdout.write(parsed.word + "\n")
        return ExitCode.done


Echo.commands = {"say": Command("say a word", Echo.say, lambda parser: parser.add_argument("word"))}


@pytest.fixture(autouse=True)
def programs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(main.PROGRAMS, "echo", main.ProgramEntry(__name__, "Echo", "repeat words"))
    monkeypatch.setattr(Echo, "error", None)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    file = tmp_path / "echo.toml"
    file.write_text('server = "https://restante.example"\nwords = ["x"]\nlimits.count = 1\n')
    return file


def call(file: Path, *arguments: str) -> int:
    command, *others = arguments
    return main.main(["echo", command, "--config", str(file), "--state", str(file.parent / "state"), *others])


class TestConfig:
    @pytest.mark.parametrize(
        ("text", "message"),
        [
            ("", "server: missing"),
            ('server = "restante.example"', "server: not as expected. The address of the server"),
            ('server = "http://x"\nwords = "x"', "words: expected `array`, got `str`"),
            ('server = "http://x"\nwords = [1]', r"words\[0\]: expected `str`, got `int`"),
            ('server = "http://x"\nword = "x"', "word: unknown field"),
            ('server = "http://x"\n[limits]\ncounts = 1', "limits.counts: unknown field"),
            ('server = "http://x"\n[limits]\ncount = 0', "limits.count: expected `int` >= 1"),
            ('server = "http://x"\n[limits]\nmode = "c"', "limits.mode: invalid enum value 'c'"),
            ('server = "http://x"\nwords = ["x"]', "limits.count: expected at most as many as words"),
            ("server =", "not TOML: Invalid value"),
        ],
    )
    def test_error_names_the_file_and_the_field(self, tmp_path: Path, text: str, message: str) -> None:
        file = tmp_path / "wrong.toml"
        file.write_text(text)
        with pytest.raises(ConfigError, match=f"wrong.toml: {message}"):
            configuration.load(file, EchoConfig)

    def test_missing_file_is_named(self, tmp_path: Path) -> None:
        with pytest.raises(ConfigError, match=r"none.toml: No such file"):
            configuration.load(tmp_path / "none.toml", EchoConfig)

    def test_unusable_ca_file_is_named(self, tmp_path: Path) -> None:
        config = configuration.decode({"server": "https://x", "ca_file": str(tmp_path / "none.pem")}, EchoConfig)
        with pytest.raises(ConfigError, match=r"ca_file: .*none.pem"):
            config.http_options()

    def test_reference_has_every_field(self, capsys: pytest.CaptureFixture[str]) -> None:
        assert main.main(["echo", "config"]) == 0
        table = capsys.readouterr().out
        assert "| `server` | required |" in table
        assert "| `limits.count` | `3` | The count. |" in table
        assert '| `limits.mode` | `"a"` | The mode. |' in table


class TestCommands:
    def test_run_once_logs_json(self, file: Path, capsys: pytest.CaptureFixture[str]) -> None:
        assert call(file, "run", "--once") == 0
        line = json.loads(capsys.readouterr().err)
        assert (line["program"], line["level"], line["event"], line["words"]) == ("echo", "info", "said", ["x"])
        assert line["time"].endswith("Z")
        assert stat.S_IMODE((file.parent / "state").stat().st_mode) == 0o700

    def test_status_shows_text_or_json_and_creates_nothing(
        self, file: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        assert call(file, "status") == 0
        assert capsys.readouterr().out.split("\n") == ["words:", "  x", "is_running: no", "has_state:  no", ""]
        assert call(file, "status", "--json") == 0
        assert json.loads(capsys.readouterr().out) == {"words": ["x"], "is_running": False, "has_state": False}
        assert not (file.parent / "state").exists()

    def test_doctor_reports_each_check(self, file: Path, capsys: pytest.CaptureFixture[str]) -> None:
        assert call(file, "doctor") == 0
        file.write_text('server = "https://restante.example"')
        assert call(file, "doctor") == 1
        out = capsys.readouterr().out
        assert "FAILED  broken: ZeroDivisionError" in out
        assert "        say something" in out
        assert call(file, "doctor", "--json") == 1
        checks = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
        assert [check["ok"] for check in checks] == [True, False]

    def test_program_has_commands_of_its_own(self, file: Path, capsys: pytest.CaptureFixture[str]) -> None:
        assert call(file, "say", "hello") == 0
        assert capsys.readouterr().out == "hello\n"

    def test_second_process_on_the_same_state_is_refused(self, file: Path, capsys: pytest.CaptureFixture[str]) -> None:
        context: Any = Namespace(config=None, log=None, state=file.parent / "state")
        with Echo(context).running():
            assert Echo(context).is_running()
            assert call(file, "run", "--once") == ExitCode.wrong_state
        assert not Echo(context).is_running()
        assert "another process runs on the state folder" in capsys.readouterr().err

    @pytest.mark.parametrize(
        ("error", "code"),
        [
            (ProgramError("x", ExitCode.unreachable), 4),
            (SessionEnded("x"), 3),
            (Forbidden(403, "5022", "x"), 3),
            (Forbidden(403, "", "<html>"), 4),
            (Unreachable("x"), 4),
            (StateError("x"), 5),
            (Stopped(), 0),
        ],
    )
    def test_errors_have_exit_codes(
        self, file: Path, monkeypatch: pytest.MonkeyPatch, error: BaseException, code: int
    ) -> None:
        monkeypatch.setattr(Echo, "error", error)
        assert call(file, "run") == code

    @pytest.mark.parametrize("arguments", [[], ["other"], ["echo"], ["echo", "fly"], ["echo", "run", "--often"]])
    def test_wrong_arguments_end_with_the_usage(self, arguments: list[str]) -> None:
        with pytest.raises(SystemExit) as raised:
            main.main(arguments)
        assert raised.value.code == ExitCode.wrong_usage


class TestStop:
    def test_signal_ends_an_interruptible_block_at_once(self) -> None:
        stopper = Stopper()
        with stopper.handling_signals():
            threading.Timer(0.05, os.kill, (os.getpid(), signal.SIGTERM)).start()
            stopper.pause(60)
        assert stopper.is_stopped

    def test_signal_before_the_block_ends_it_too(self) -> None:
        stopper = Stopper()
        stopper.stop()
        with pytest.raises(Stopped), stopper.interruptible():
            raise AssertionError("the block was entered")

    def test_work_outside_such_a_block_goes_on(self) -> None:
        stopper = Stopper()
        with stopper.handling_signals():
            os.kill(os.getpid(), signal.SIGTERM)
            end = time.monotonic() + 60
            while not stopper.is_stopped:
                assert time.monotonic() < end

    def test_stopped_program_neither_sends_selected_requests_nor_waits(self) -> None:
        stopper = Stopper()
        stopper.stop()
        runtime = StoppableRuntime(stopper, lambda request: True, verify=False)
        with pytest.raises(Stopped):
            run_blocking(runtime.send(Any, 1))  # type: ignore[arg-type]
        with pytest.raises(Stopped):
            run_blocking(runtime.sleep(60))
        run_blocking(runtime.close())


def test_log_lines_have_fields_and_no_traceback_of_expected_errors() -> None:
    stream = io.StringIO()
    log = logs.set_up("test", "info", stream)
    log.debug("left out")
    log.warning("seen", path=Path("/x"))
    log.error("failed", error=ValueError("no"), step="a")
    lines = [json.loads(line) for line in stream.getvalue().splitlines()]
    assert [line["event"] for line in lines] == ["seen", "failed"]
    assert lines[0]["path"] == "/x"
    assert (lines[1]["error"], lines[1]["step"]) == ("ValueError: no", "a")


def test_package_imports_its_names_when_they_are_used() -> None:
    program = (
        "import sys, restante_client, restante_client.agent.main\n"
        "assert not [name for name in sys.modules if name.startswith(('cryptography', 'nacl', 'restante_client.ev'))]\n"
        "from restante_client import *\n"
        "assert EventReceiver and open_bundle"
    )
    environment = {**os.environ, "PYTHONPATH": str(Path(restante_client.__file__).parents[1])}
    subprocess.run([sys.executable, "-c", program], check=True, env=environment)
    with pytest.raises(AttributeError, match="Nothing"):
        restante_client.Nothing  # noqa: B018
