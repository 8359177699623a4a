"""The device agent against a server with one device: each test starts the program as a person does."""

from __future__ import annotations

import contextlib
import datetime
import hashlib
import json
import os
import signal
import stat
import threading
from argparse import Namespace
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import pkcs12
from device_server import Agent, DeviceServer, authority_bundle, bundle_for
from scripted_server import Reply, Request, data, error

from restante_client.agent.device import materials
from restante_client.agent.device.program import DeviceProgram
from restante_client.device.models import Session
from restante_client.device.store import DeviceStore


@pytest.fixture
def server() -> Iterator[DeviceServer]:
    server = DeviceServer()
    yield server
    server.close()


@pytest.fixture
def agent(server: DeviceServer, tmp_path: Path, request: pytest.FixtureRequest) -> Agent:
    """The agent. Bundles are opened in this process, which is quicker, except in tests whose name says `child`."""
    if "child" not in request.node.name:
        request.getfixturevalue("monkeypatch").setattr(materials, "in_child", materials.make)
    return Agent(tmp_path, server)


def log_lines(capsys: pytest.CaptureFixture[str]) -> list[dict[str, Any]]:
    return [json.loads(line) for line in capsys.readouterr().err.splitlines() if line.startswith("{")]


def status(agent: Agent, capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    capsys.readouterr()
    assert agent.call("status", "--json") == 0
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


@contextlib.contextmanager
def running_elsewhere(agent: Agent) -> Iterator[None]:
    """As if another process ran on the state folder."""
    context: Any = Namespace(config=None, log=None, state=agent.state)
    with DeviceProgram(context).running():
        yield


class TestConfig:
    def test_config_is_applied_in_dependency_order_and_reported(self, agent: Agent, server: DeviceServer) -> None:
        agent.put_file("site.conf", "one")
        touch = {"id": "reload", "type": "exec", "cmd": ["touch", str(agent.out / "reloaded")], "depends_on": ["site"]}
        server.put_config(touch, agent.copy_item("site", "site.conf", env=None, depends_on=None))
        assert agent.run() == 0
        assert (agent.out / "site.conf").read_text() == "one"
        assert (agent.out / "reloaded").exists()
        (made,) = server.reported("install.applied")
        assert (made["version"], made["config_id"], made["counts"]) == (1, 5, {"done": 2})
        assert [(step["id"], step["result"]) for step in made["steps"]] == [("site", "done"), ("reload", "done")]
        assert made["steps"][1]["exit_code"] == 0
        (started,) = server.reported("agent_version")
        assert started["agent"] == "restante-agent"

    def test_applied_config_is_not_applied_again(self, agent: Agent, server: DeviceServer) -> None:
        server.put_config({"id": "a", "type": "exec", "cmd": "true && true"})
        assert agent.run() == 0
        assert agent.run() == 0
        assert len(server.reported("install.applied")) == 1

    def test_failed_config_is_rolled_back_and_the_old_commands_run_again(
        self, agent: Agent, server: DeviceServer, capsys: pytest.CaptureFixture[str]
    ) -> None:
        reload = {"id": "reload", "type": "exec", "cmd": ["touch", str(agent.out / "reloaded")]}
        agent.put_file("site.conf", "good")
        server.put_config(agent.copy_item("site", "site.conf"), reload)
        assert agent.run() == 0
        (agent.out / "site.conf").chmod(0o640)
        (agent.out / "reloaded").unlink()
        agent.put_file("site.conf", "bad")
        agent.put_file("new.conf", "new")
        server.put_config(
            agent.copy_item("site", "site.conf"),
            agent.copy_item("new", "new.conf"),
            {"id": "check", "type": "exec", "cmd": ["sh", "-c", "echo sorry; exit 3"]},
        )
        assert agent.run() == 1
        assert (agent.out / "site.conf").read_text() == "good"
        assert stat.S_IMODE((agent.out / "site.conf").stat().st_mode) == 0o640
        assert not (agent.out / "new.conf").exists()
        assert (agent.out / "reloaded").exists()
        (made,) = server.reported("install.failed")
        assert (made["version"], made["error"], made["rolled_back"]) == (2, "check: exit code 3", True)
        assert made["steps"][-1]["exit_code"] == 3
        assert "output" not in made["steps"][-1]
        assert [step["id"] for step in made["restored"]] == ["reload"]
        assert [line["output"] for line in log_lines(capsys) if line["event"] == "step not done"] == ["sorry"]
        found = status(agent, capsys)
        assert (found["fetched_version"], found["applied_version"], found["last_result"]) == (2, 1, "failed")
        # It is not tried again by itself, but when a person says so.
        assert agent.run() == 0
        agent.put_file("site.conf", "better")
        assert agent.call("apply") == 1
        assert len(server.reported("install.failed")) == 2

    def test_item_that_may_fail_does_not_stop_others_but_its_dependents(
        self, agent: Agent, server: DeviceServer
    ) -> None:
        agent.put_file("a", "a")
        server.put_config(
            {"id": "bad", "type": "exec", "cmd": ["false"], "continue_on_error": True},
            agent.copy_item("after", "a", depends_on=["bad"]),
            {"id": "off", "type": "exec", "cmd": ["false"], "enabled": False},
            {"id": "good", "type": "exec", "cmd": ["touch", str(agent.out / "x")], "depends_on": ["off"]},
        )
        assert agent.run() == 0
        (made,) = server.reported("install.applied")
        found = {step["id"]: step["result"] for step in made["steps"]}
        assert found == {"bad": "failed", "after": "skipped", "off": "skipped", "good": "done"}
        assert not (agent.out / "a").exists()

    @pytest.mark.parametrize(
        ("item", "reason"),
        [
            ({"type": "exec", "cmd": ["rm", "-rf", "/"]}, "allow.commands"),
            ({"type": "exec", "cmd": "rm -rf /"}, "allow.shell"),
            ({"type": "exec", "cmd": ["false"], "env": {"LD_PRELOAD": "x"}}, "allow.environment"),
            ({"type": "exec", "cmd": ["false"], "run_as": "nobody"}, "allow.users"),
            ({"type": "exec", "cmd": ["false"], "verify": {"type": "command", "cmd": ["id"]}}, "allow.commands"),
            ({"type": "copy", "from": ["a"], "to": ["/etc/passwd"]}, "allow.paths"),
            ({"type": "copy", "from": ["a"], "to": ["{out}/../x"]}, "without .."),
            ({"type": "copy", "from": ["../state.db"], "to": ["{out}/x"]}, "below files/"),
            ({"type": "copy", "from": ["/etc/shadow"], "to": ["{out}/x"]}, "allow.sources"),
            ({"type": "copy", "ob_type": "cert", "ob_id": 1, "from": ["../x"], "to": ["{out}/x"]}, "staged file"),
            ({"type": "copy", "ob_type": "cert", "ob_id": 9, "from": ["x"], "to": ["{out}/x"]}, "not assigned"),
            ({"type": "exec"}, "needs a command"),
            ({"type": "import_ca"}, "needs an authority"),
            ({"type": "fly"}, "not known"),
        ],
    )
    def test_config_with_a_refused_item_changes_nothing(
        self, agent: Agent, server: DeviceServer, item: dict[str, Any], reason: str
    ) -> None:
        agent.put_file("a", "a")
        item = {**item, "to": [path.replace("{out}", str(agent.out)) for path in item.get("to", [])]}
        server.put_config(agent.copy_item("first", "a"), {"id": "bad", **item})
        assert agent.run() == 1
        assert list(agent.out.iterdir()) == []
        (made,) = server.reported("install.failed")
        assert reason in made["error"]
        assert [(step["id"], step["result"]) for step in made["steps"]] == [("bad", "refused")]

    def test_refused_config_is_tried_again_after_the_settings_have_changed(
        self, agent: Agent, server: DeviceServer
    ) -> None:
        server.put_config({"id": "a", "type": "exec", "cmd": ["echo", "x"]})
        assert agent.run() == 1
        assert agent.run() == 0
        assert len(server.reported("install.failed")) == 1
        agent.file.write_text(agent.file.read_text().replace('"false"', '"false", "echo *"'))
        assert agent.run() == 0
        assert len(server.reported("install.applied")) == 1

    def test_version_that_is_used_again_with_other_items_is_applied(self, agent: Agent, server: DeviceServer) -> None:
        """The server was set up again, or restored from a backup."""
        server.put_config({"id": "a", "type": "exec", "cmd": ["touch", str(agent.out / "a")]})
        assert agent.run() == 0
        server.config = None
        server.put_config({"id": "b", "type": "exec", "cmd": ["touch", str(agent.out / "b")]})
        assert agent.run() == 0
        assert (agent.out / "b").exists()

    def test_config_with_a_wrong_hash_is_refused(self, agent: Agent, server: DeviceServer) -> None:
        server.put_config({"id": "a", "type": "exec", "cmd": "true && true"}, hash="AAAA")
        assert agent.run() == 1
        (made,) = server.reported("install.failed")
        assert "hash" in made["error"]

    def test_config_waits_for_a_person(
        self, agent: Agent, server: DeviceServer, capsys: pytest.CaptureFixture[str]
    ) -> None:
        agent.configure(apply='auto_apply = "off"')
        agent.put_file("a", "a")
        server.put_config(agent.copy_item("a", "a"), script="echo done")
        assert agent.run() == 0
        assert agent.run() == 0
        assert not (agent.out / "a").exists()
        (made,) = server.reported("install.waiting")
        assert (made["version"], made["auto_apply"]) == (1, "off")
        assert agent.call("show") == 0
        shown = capsys.readouterr().out
        assert "version 1: waiting" in shown
        assert f"a copy a to {agent.out}/a" in shown
        assert hashlib.sha256(b"echo done").hexdigest() in shown
        with running_elsewhere(agent):
            assert agent.call("apply") == 0
        assert "the running agent applies it" in capsys.readouterr().out
        assert not (agent.out / "a").exists()
        assert agent.call("apply") == 0
        assert (agent.out / "a").read_text() == "a"
        assert len(server.reported("install.applied")) == 1

    def test_config_waits_for_its_window(self, agent: Agent, server: DeviceServer) -> None:
        day = datetime.datetime.now()
        other = (day + datetime.timedelta(days=3)).strftime("%a")
        agent.configure(apply=f'auto_apply = "window"\nwindows = ["{other} 00:00-24:00"]')
        agent.put_file("a", "a")
        server.put_config(agent.copy_item("a", "a"))
        assert agent.run() == 0
        assert not (agent.out / "a").exists()
        agent.configure(apply='auto_apply = "window"\nwindows = ["00:00-24:00"]')
        assert agent.run() == 0
        assert (agent.out / "a").exists()

    def test_script_runs_only_if_its_hash_is_pinned(self, agent: Agent, server: DeviceServer) -> None:
        script = f"#!/bin/sh\ntouch {agent.out}/scripted-$RESTANTE_CONFIG_VERSION\n"
        server.put_config({"id": "a", "type": "exec", "cmd": "true && true"}, script=script)
        assert agent.run() == 0
        assert list(agent.out.iterdir()) == []
        (made,) = server.reported("install.applied")
        assert (made["steps"][-1]["id"], made["steps"][-1]["result"]) == ("after_update_script", "refused")
        agent.file.write_text(
            agent.file.read_text().replace(
                "[allow]", f'[allow]\nafter_update_scripts = ["{hashlib.sha256(script.encode()).hexdigest()}"]'
            )
        )
        server.put_config({"id": "a", "type": "exec", "cmd": "true && true"}, script=script)
        assert agent.run() == 0
        assert [path.name for path in agent.out.iterdir()] == ["scripted-2"]

    def test_failed_script_rolls_back(self, agent: Agent, server: DeviceServer) -> None:
        pin = hashlib.sha256(b"exit 4").hexdigest()
        agent.file.write_text(agent.file.read_text().replace("[allow]", f'[allow]\nafter_update_scripts = ["{pin}"]'))
        agent.put_file("a", "a")
        server.put_config(agent.copy_item("a", "a"), script="exit 4")
        assert agent.run() == 1
        assert list(agent.out.iterdir()) == []
        assert server.reported("install.failed")[0]["error"] == "after_update_script: exit code 4"


class TestObjects:
    def test_certificate_is_opened_in_a_child_installed_and_renewed(self, agent: Agent, server: DeviceServer) -> None:
        server.bundles[3] = bundle_for(agent.device_key, "till.example")
        target, key_target = agent.out / "tls" / "cert.pem", agent.out / "tls" / "key.pem"
        item = {"id": "tls", "type": "copy", "ob_type": "cert", "ob_id": 3, "from": ["fullchain.pem", "private.key"]}
        reload = {"id": "reload", "type": "exec", "cmd": ["touch", str(agent.out / "x")], "depends_on": ["tls"]}
        other = {"id": "other", "type": "exec", "cmd": ["touch", str(agent.out / "y")]}
        verify = {"type": "cert_fingerprint"}
        server.put_config({**item, "to": [str(target), str(key_target)], "verify": verify}, reload, other)
        server.send("cert.wrap_ready", cert_id=3)
        assert agent.run() == 0
        current = agent.state / "resources" / "certs" / "3" / "current"
        names = {"private.key", "certificate.pem", "chain.pem", "fullchain.pem", "certificate.der", "bundle.pfx"}
        assert {path.name for path in current.iterdir()} == names | {"meta.json"}
        modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in current.iterdir()}
        assert (modes["private.key"], modes["bundle.pfx"], modes["certificate.pem"]) == (0o600, 0o600, 0o644)
        key = serialization.load_pem_private_key(key_target.read_bytes(), None)
        leaf = x509.load_pem_x509_certificate(target.read_bytes())
        assert key.public_key() == leaf.public_key()
        assert stat.S_IMODE(key_target.stat().st_mode) == 0o600
        packed = pkcs12.load_key_and_certificates((current / "bundle.pfx").read_bytes(), None)
        assert packed[1] == leaf
        assert json.loads((current / "meta.json").read_text())["domain_name"] == "till.example"

        (agent.out / "x").unlink()
        (agent.out / "y").unlink()
        server.bundles[3] = bundle_for(agent.device_key, "till.example")
        server.send("cert.renewed", cert_id=3)
        server.send("cert.updated", cert_id=3)
        assert agent.run() == 0
        assert x509.load_pem_x509_certificate(target.read_bytes()) != leaf
        assert (agent.out / "x").exists()
        assert not (agent.out / "y").exists()
        assert len(server.reported("cert.staged")) == 1
        (made,) = server.reported("cert.installed")
        assert [step["id"] for step in made["steps"]] == ["tls", "reload"]

        server.send("cert.revoked", cert_id=3)
        del server.bundles[3]
        assert agent.run() == 0
        assert not current.exists()
        assert server.reported("cert.removed")[0]["installed_files"] == [str(target), str(key_target)]

    def test_certificate_that_is_not_wrapped_yet_is_fetched_later(self, agent: Agent, server: DeviceServer) -> None:
        server.bundles[3] = error(409, "WRAP_PENDING: not yet")
        item = {"id": "tls", "type": "copy", "ob_type": "cert", "ob_id": 3, "from": ["certificate.pem"]}
        server.put_config({**item, "to": [str(agent.out / "cert.pem")]})
        assert agent.run() == 1
        assert server.reported("install.failed") == []
        server.bundles[3] = bundle_for(agent.device_key, "till.example")
        assert agent.run() == 0
        assert (agent.out / "cert.pem").exists()

    def test_config_that_failed_for_a_missing_certificate_is_tried_when_it_comes(
        self, agent: Agent, server: DeviceServer
    ) -> None:
        item = {"id": "tls", "type": "copy", "ob_type": "cert", "ob_id": 3, "from": ["certificate.pem"]}
        server.put_config({**item, "to": [str(agent.out / "cert.pem")]})
        assert agent.run() == 1
        server.bundles[3] = bundle_for(agent.device_key, "till.example")
        server.send("cert.wrap_ready", cert_id=3)
        assert agent.run() == 0
        assert (agent.out / "cert.pem").exists()

    def test_key_of_another_certificate_is_refused_by_the_child(self, agent: Agent, server: DeviceServer) -> None:
        other = ec.generate_private_key(ec.SECP256R1())
        server.bundles[3] = bundle_for(agent.device_key, "till.example", key=other)
        server.send("cert.wrap_ready", cert_id=3)
        assert agent.run() == 1
        assert "does not belong" in server.reported("cert.failed")[0]["error"]
        assert not (agent.state / "resources" / "certs" / "3").exists()

    def test_authority_is_trusted_and_removed(
        self, agent: Agent, server: DeviceServer, capsys: pytest.CaptureFixture[str]
    ) -> None:
        server.authorities[4] = authority_bundle(4, "shop")
        server.send("ca.assigned", ca_id=4, ca_name="shop")
        assert agent.run() == 0
        anchor = agent.anchors / "restante-ca-4.crt"
        assert anchor.read_text() == server.authorities[4]["ca_certificate_pem"]
        assert (agent.folder / "updated").exists()
        current = agent.state / "resources" / "cas" / "4" / "current"
        assert {path.name for path in current.iterdir()} == {"ca.pem", "ca.der", "meta.json"}
        assert [found["name"] for found in status(agent, capsys)["authorities"]] == ["shop"]
        (agent.folder / "updated").unlink()
        server.send("ca.unassigned", ca_id=4)
        assert agent.run() == 0
        assert not anchor.exists()
        assert (agent.folder / "updated").exists()
        assert not current.parent.exists()
        assert [event["type"] for event in server.reports if event["type"].startswith("ca.")] == [
            "ca.imported",
            "ca.removed",
        ]

    def test_certificate_that_is_no_authority_is_not_trusted(self, agent: Agent, server: DeviceServer) -> None:
        server.authorities[4] = authority_bundle(4, "shop", is_ca=False)
        server.send("ca.assigned", ca_id=4)
        assert agent.run() == 1
        assert list(agent.anchors.iterdir()) == []
        assert "not one of an authority" in server.reported("ca.failed")[0]["error"]

    def test_failed_config_takes_its_authority_back(self, agent: Agent, server: DeviceServer) -> None:
        agent.configure(trust="auto_import = false")
        server.authorities[4] = authority_bundle(4, "shop")
        server.send("ca.assigned", ca_id=4)
        bad = {"id": "bad", "type": "exec", "cmd": ["false"], "depends_on": ["ca"]}
        server.put_config({"id": "ca", "type": "import_ca", "ob_id": 4, "from": ["ca.pem"]}, bad)
        assert agent.run() == 1
        assert list(agent.anchors.iterdir()) == []
        server.put_config({"id": "ca", "type": "import_ca", "ob_id": 4})
        assert agent.run() == 0
        assert (agent.anchors / "restante-ca-4.crt").exists()

    def test_lost_signals_are_made_up_by_a_comparison(self, agent: Agent, server: DeviceServer) -> None:
        server.authorities[4] = authority_bundle(4, "shop")
        server.send("ca.assigned", ca_id=4)
        assert agent.run() == 0
        server.authorities.clear()
        agent.put_file("a", "a")
        server.put_config(agent.copy_item("a", "a"))
        server.trimmed = len(server.signals)
        assert agent.run() == 0
        assert list(agent.anchors.iterdir()) == []
        assert (agent.out / "a").exists()


class TestOwnSignals:
    def test_handlers_get_signals_in_order(self, agent: Agent, server: DeviceServer) -> None:
        agent.add_handler("shop.price", "exit 0")
        agent.add_handler("shop.open", "exit 0")
        for number in range(3):
            server.send("shop.price", number=number)
            server.send("shop.unknown", number=number)
        server.send("shop.open", number=3)
        assert agent.run() == 0
        heard = [json.loads(line) for line in (agent.folder / "heard").read_text().splitlines()]
        assert [(found["type"], found["ref"]["number"]) for found in heard] == [
            ("shop.price", 0),
            ("shop.price", 1),
            ("shop.price", 2),
            ("shop.open", 3),
        ]

    def test_failing_handler_holds_later_signals_and_is_given_up(self, agent: Agent, server: DeviceServer) -> None:
        agent.add_handler("shop.price", "exit 1")
        agent.add_handler("shop.open", "exit 0")
        server.send("shop.price", number=1)
        server.send("shop.open", number=2)
        for expected in (1, 2):
            assert agent.run() == 1
            assert len((agent.folder / "heard").read_text().splitlines()) == expected
        assert agent.run() == 1
        heard = [json.loads(line)["type"] for line in (agent.folder / "heard").read_text().splitlines()]
        assert heard == ["shop.price", "shop.price", "shop.price", "shop.open"]
        (made,) = server.reported("signal.failed")
        assert (made["signal"], made["attempts"], made["error"]) == ("shop.price", 3, "exit code 1")

    def test_handler_that_others_may_write_is_not_executed(
        self, agent: Agent, server: DeviceServer, capsys: pytest.CaptureFixture[str]
    ) -> None:
        agent.add_handler("shop.price", "exit 0").chmod(0o777)
        server.send("shop.price", number=1)
        server.send("../handlers/shop.price", number=2)
        assert agent.run() == 0
        assert not (agent.folder / "heard").exists()
        ignored = [line for line in log_lines(capsys) if line["event"] == "signal ignored"]
        assert [line["reason"] for line in ignored] == ["other users may write it"]


class TestServer:
    def test_reports_wait_for_the_server(self, agent: Agent, server: DeviceServer) -> None:
        server.notify_error = error(503)
        server.put_config({"id": "a", "type": "exec", "cmd": "true && true"})
        assert agent.run() == 0
        server.notify_error = None
        assert agent.run() == 0
        types = [event["type"] for event in server.reports]
        assert types == ["agent_version", "install.applied", "agent_version"]

    def test_refused_reports_are_dropped(
        self, agent: Agent, server: DeviceServer, capsys: pytest.CaptureFixture[str]
    ) -> None:
        server.notify_error = error(400)
        assert agent.run() == 0
        assert "reports refused and dropped" in [line["event"] for line in log_lines(capsys)]
        assert status(agent, capsys)["reports_waiting"] == 0

    @pytest.mark.parametrize(
        ("answer", "code"), [(error(503), 4), (error(403), 3), (error(401), 3), (Reply(200, b"x"), 4)]
    )
    def test_exit_code_says_why(self, agent: Agent, server: DeviceServer, answer: Reply, code: int) -> None:
        server.script("/updates", answer)
        server.script("/auth/refresh", error(401))
        assert agent.run() == code

    def test_agent_that_is_not_enrolled_says_so(
        self, agent: Agent, server: DeviceServer, capsys: pytest.CaptureFixture[str]
    ) -> None:
        assert agent.call("run", "--state", str(agent.folder / "other")) == 3
        assert "restante-agent device enrol" in capsys.readouterr().err
        assert agent.call("show", "--state", str(agent.folder / "third")) == 3
        assert not (agent.folder / "third").exists()

    def test_stopped_enrolment_does_not_go_on(self, agent: Agent, server: DeviceServer) -> None:
        code = {"device_code": "secret", "user_code": "AB-CD", "verification_uri": "http://x", "interval": 60}
        asked: list[str] = []

        def answer(request: Request) -> Reply:
            asked.append(request.json["action"])
            if asked[-1] == "device_start":
                return data(code)
            # The answer that the agent gets is the reason for its wait; the signal comes before or in the wait.
            threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGTERM)).start()
            return data({"status": "authorization_pending"})

        server.http.default = answer
        assert agent.call("enrol", "--state", str(agent.folder / "new")) == 1
        assert asked == ["device_start", "device_poll"]

    def test_enrolment_by_registration_code(self, agent: Agent, server: DeviceServer) -> None:
        session = {"access_token": "a", "refresh_token": "r", "expires_in": 3600}
        body = json.dumps({"data": {"device": {"id": 9}, "session": session}}).encode()
        server.script("/device/registration", Reply(200, body))
        code = agent.folder / "code"
        code.write_text("the-code\n")
        assert agent.call("enrol", "--state", str(agent.folder / "new"), "--code-file", str(code)) == 0
        assert server.http.requests[-1].json["registration_code"] == "the-code"

    def test_doctor_finds_problems(
        self, agent: Agent, server: DeviceServer, capsys: pytest.CaptureFixture[str]
    ) -> None:
        server.script("/health", Reply(200, b"{}"), Reply(200, b"{}"))
        assert agent.call("doctor") == 0
        (agent.state / "device.key").chmod(0o644)
        agent.add_handler("x", "").chmod(0o666)
        capsys.readouterr()
        assert agent.call("doctor", "--json") == 1
        failed = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
        assert [found["check"] for found in failed if not found["ok"]] == ["state folder", "handler x"]

    def test_no_secret_is_logged_or_reported(
        self, agent: Agent, server: DeviceServer, capsys: pytest.CaptureFixture[str]
    ) -> None:
        store = DeviceStore(agent.state)
        store.save_session(Session("secret-access", "secret-refresh"))
        store.close()
        server.bundles[3] = bundle_for(agent.device_key, "till.example")
        server.send("cert.wrap_ready", cert_id=3)
        assert agent.call("run", "--once", "--log-level", "debug") == 0
        assert agent.call("status") == 0
        seen = "".join(capsys.readouterr()) + json.dumps(server.reports)
        key = (agent.state / "resources" / "certs" / "3" / "current" / "private.key").read_text().splitlines()[1]
        device_key = (agent.state / "device.key").read_text().strip()
        assert not [text for text in ("secret-access", "secret-refresh", key, device_key) if text in seen]
        assert os.stat(agent.state).st_mode & 0o077 == 0
