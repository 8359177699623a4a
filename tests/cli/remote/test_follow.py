"""Commands that follow a server: `status`, `event listen`, `device watch`, `--watch`, and completion."""

import json
import os
import select
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO, Any

import pytest

from tests.cli.conftest import AddDevice, Restante
from tests.faults.server_process import PROGRAM, environment

pytestmark = pytest.mark.slow

PATIENCE_SECONDS = 60


@contextmanager
def following(remote: Restante, *args: str) -> Iterator["subprocess.Popen[bytes]"]:
    process = subprocess.Popen(
        [PROGRAM, *args, "--data", str(remote.data)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment(),
        bufsize=0,
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def next_line(stream: IO[bytes] | None) -> str:
    assert stream is not None
    ready, _, _ = select.select([stream], [], [], PATIENCE_SECONDS)
    assert ready, "nothing was printed"
    return stream.readline().decode()


def test_status_names_what_is_stuck_and_the_command_that_shows_more(remote: Restante) -> None:
    site = str(remote.json("site", "create", "stuck")["id"])
    miner = str(remote.json("miner", "create", site, "m")["id"])
    assert not any(each["stuck"] for each in remote.items("status") if each["subject"] == "commands to dispatch")
    remote.ok("command", "create", site, "restart", "--miner", miner)
    found = {each["subject"]: each for each in remote.items("status")}
    assert found["commands to dispatch"]["stuck"] is True
    assert found["outbox server"]["state"].startswith("0 pending, 0 failed")
    assert "\n  restante command list --status pending\n" in remote.ok("status")


def test_event_listen_prints_each_new_event(remote: Restante) -> None:
    remote.ok("client", "create", "Shop", "--method", "client_secret_basic", "--client-id", "listened")
    with following(remote, "event", "listen", "--json") as process:
        assert next_line(process.stderr).startswith("Listening")
        to = ("--client", "listened", "--sub", "https://bank.example/1")
        (jti,) = remote.json("event", "publish", '{"urn:example:x": {}}', *to)["jtis"]
        printed: Any = json.loads(next_line(process.stdout))
        assert (printed["jti"], printed["client_id"]) == (jti, "listened")


def test_device_watch_prints_each_signal(remote: Restante, add_device: AddDevice) -> None:
    number = str(add_device("watched"))
    with following(remote, "device", "watch", number) as process:
        assert next_line(process.stdout).split("\t")[-1] == "active, config none, 0 to confirm\n"
        remote.ok("signal", "send", number, "app.hello")
        lines = [next_line(process.stdout).split("\t") for _ in range(2)]
        assert ["app.hello", "queued\n"] in [line[-2:] for line in lines]


def test_watch_lists_again(remote: Restante) -> None:
    remote.ok("site", "create", "seen twice")
    with following(remote, "site", "list", "--watch", "--limit", "1") as process:
        headers = 0
        while headers < 2:
            headers += next_line(process.stdout).startswith("id\t")


def test_ids_names_and_choices_are_completed(remote: Restante) -> None:
    site = remote.json("site", "create", "completed")["id"]
    remote.ok("site", "create", "two words")

    def complete(words: str, position: int | None = None) -> str:
        environ = {**environment(), "_RESTANTE_COMPLETE": "complete_bash", "COMP_WORDS": f"restante {words}"}
        environ |= {
            "COMP_CWORD": str(len(words.split()) + 1 if position is None else position),
            "RESTANTE_DATA": str(remote.data),
            "PATH": os.environ["PATH"],
        }
        done = subprocess.run([PROGRAM], env=environ, capture_output=True, text=True, timeout=PATIENCE_SECONDS)
        return done.stdout

    assert str(site) in complete("site show ").split()
    assert complete("site show compl", 3).split("\n") == ["completed", ""]
    assert complete(r"site show two\ w", 3).rstrip() == r"two\ words"
    assert str(site) in complete("rule create hot --site ").split()
    assert "MINER_RESTART" in complete("rule create hot --command ").split()
    remote.ok("user", "create", "pki@example.com", "--role", "admin", "--invited")
    ca = remote.json("ca", "create", "Completed CA", "--user", "pki@example.com")["id"]
    account = ("account", "create", "completed account", "--ca", str(ca), "--email", "a@example.com")
    number = remote.json(*account, "--user", "pki@example.com")["id"]
    assert str(number) in complete("certificate create --user pki@example.com x.example --account ").split()
    assert str(ca) in complete("account create --user pki@example.com x --ca ").split()
    assert complete("key create x --role ").split() == ["viewer", "operator", "approver", "admin"]
