import errno
import io
import json
import logging
from collections.abc import Iterator
from typing import Any

import pytest
import structlog

from restante.server.monitoring.logs import REDACTED, configure, redact

JWT = "eyJhbGciOiJFZERTQSJ9.eyJzdWIiOiIxIn0.c2lnbmF0dXJl"
API_KEY = "rk_" + "Ab3_-" * 8


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def _restore_logging() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)
    structlog.reset_defaults()


def redacted(**event: Any) -> dict[str, Any]:
    return dict(redact(None, "info", event))


def lines(out: io.StringIO) -> list[dict[str, Any]]:
    return [json.loads(line) for line in out.getvalue().splitlines()]


def test_json_format_writes_one_object_per_line() -> None:
    out = io.StringIO()
    configure("json", "info", out)
    structlog.get_logger().info("two\nlines", device_id=7)
    (line,) = lines(out)
    assert line.pop("timestamp").endswith("Z")
    assert line == {"event": "two\nlines", "device_id": 7, "level": "info"}


def test_auto_format_is_console_on_a_terminal_and_json_otherwise() -> None:
    for out, is_json in ((io.StringIO(), True), (Terminal(), False)):
        configure("auto", "info", out)
        structlog.get_logger().info("hello")
        assert out.getvalue().startswith("{") is is_json
    out = io.StringIO()
    configure("console", "info", out)
    structlog.get_logger().info("hello", n=1)
    assert "hello" in out.getvalue()
    assert "\x1b" not in out.getvalue()


@pytest.mark.parametrize("log_format", ["json", "console"])
def test_events_below_the_level_are_not_written(log_format: str) -> None:
    out = io.StringIO()
    configure(log_format, "warning", out)
    structlog.get_logger().info("quiet")
    logging.getLogger("uvicorn.error").info("quiet")
    structlog.get_logger().warning("loud")
    logging.getLogger("uvicorn.error").warning("loud")
    assert out.getvalue().count("loud") == 2
    assert "quiet" not in out.getvalue()


def test_library_logs_are_written_in_the_same_format_and_redacted() -> None:
    out = io.StringIO()
    uvicorn = logging.getLogger("uvicorn")
    uvicorn.addHandler(logging.StreamHandler(io.StringIO()))
    uvicorn.propagate = False
    configure("json", "info", out)
    logging.getLogger("uvicorn.error").warning("started on %s with %s", 8080, API_KEY)
    (line,) = lines(out)
    assert line["event"] == f"started on 8080 with {REDACTED}"
    assert line["logger"] == "uvicorn.error"
    assert line["level"] == "warning"


@pytest.mark.parametrize("log_format", ["json", "console"])
def test_traceback_is_written_without_its_secrets(log_format: str) -> None:
    out = io.StringIO()
    configure(log_format, "info", out)
    try:
        raise ValueError(f"refused {JWT}")
    except ValueError:
        structlog.get_logger().exception("failed")
        logging.getLogger("library").exception("failed")
    assert out.getvalue().count("ValueError: refused (redacted)") == 2
    assert JWT not in out.getvalue()


@pytest.mark.parametrize(
    "name",
    [
        *(
            "password",
            "new_password",
            "password_hash",
            "token",
            "access_token",
            "refresh-token",
            "authorization",
        ),
        *("Authorization", "secret", "client_secret", "key", "api_key", "x-api-key", "master_key", "cookie"),
        *("set-cookie", "device_code", "user_code", "registration_code", "tokens", "credentials"),
    ],
)
def test_value_with_the_name_of_a_secret_is_redacted(name: str) -> None:
    assert redacted(**{name: "hunter2"}) == {name: REDACTED}
    assert redacted(body={"inner": [{name: b"hunter2"}]}) == {"body": {"inner": [{name: REDACTED}]}}


@pytest.mark.parametrize("name", ["key_id", "token_count", "status_code", "monkey", "keyed", "path", "event"])
def test_value_with_a_name_similar_to_a_secret_is_kept(name: str) -> None:
    assert redacted(**{name: "seen"}) == {name: "seen"}


def test_numbers_and_none_are_not_redacted() -> None:
    assert redacted(tokens=5, key=None, ratio=0.5) == {"tokens": 5, "key": None, "ratio": 0.5}


@pytest.mark.parametrize(
    "secret",
    [
        API_KEY,
        JWT,
        "Bearer abcdef",
        "-----BEGIN PRIVATE KEY-----\nMC4CAQ\n-----END PRIVATE KEY-----",
        "-----BEGIN EC PRIVATE KEY-----\nMC4CAQ",
    ],
)
def test_text_that_looks_like_a_secret_is_redacted_at_any_depth(secret: str) -> None:
    result = redacted(event=f"got {secret}", inner=[{"x": secret}], error=ValueError(secret))
    for piece in ("Ab3", "eyJ", "abcdef", "MC4CAQ"):
        assert piece not in repr(result)
    assert result["event"].startswith("got ")


def test_value_that_contains_itself_is_cut_off() -> None:
    loop: list[Any] = []
    loop.append(loop)
    assert REDACTED in repr(redacted(loop=loop))


class FullDisk(io.StringIO):
    def write(self, _text: str, /) -> int:
        raise OSError(errno.ENOSPC, "no space left on device")


def test_line_that_cannot_be_written_is_dropped_without_an_error() -> None:
    configure("json", "debug", FullDisk())
    log = structlog.get_logger()
    for write in (log.debug, log.info, log.warning, log.error, log.critical):
        write("dropped")
    try:
        raise ValueError
    except ValueError:
        log.exception("dropped, too")
