"""Installing items: consent, files, commands, trust stores, windows; and a crash at every step of a run."""

from __future__ import annotations

import contextlib
import datetime
import os
import stat
import sys
import time
from pathlib import Path
from typing import Any, Callable, Optional

import pytest
from device_server import authority_bundle

from restante_client.agent import config as configuration
from restante_client.agent.config import ConfigError
from restante_client.agent.device import materials
from restante_client.agent.device.config import Allow, DeviceConfig, FileRule, Trust
from restante_client.agent.device.install import commands, files, plan
from restante_client.agent.device.install.applier import Applier
from restante_client.agent.device.install.consent import AllowedPath, Consent, Refused, allowed_path
from restante_client.agent.device.install.file_modes import wanted_state
from restante_client.agent.device.install.files import FileState
from restante_client.agent.device.install.trust_stores import TrustStoreError, TrustStores
from restante_client.agent.device.install.windows import parse_window, seconds_until_open
from restante_client.agent.device.store import AgentStore
from restante_client.agent.device.worker import Worker
from restante_client.agent.logs import Log
from restante_client.agent.stopping import Stopper
from restante_client.device.models import AuthorityBundle, InstallConfig, InstallItem, Signal
from restante_client.device.store import DeviceStore
from restante_client.errors import VerificationFailed
from restante_client.state import StateFolder

PATH = os.environ.get("PATH", "/usr/bin:/bin")


def state_of(content: bytes, mode: int = 0o644) -> FileState:
    return FileState(content, mode, os.geteuid(), os.getegid())


class TestConsent:
    @pytest.mark.parametrize(
        ("path", "parts"),
        [("/etc/app/a", ("a",)), ("/etc/app//b/./c", ("b", "c")), ("/etc/one.conf", ("one.conf",))],
    )
    def test_path_below_an_allowed_one(self, path: str, parts: tuple[str, ...]) -> None:
        assert allowed_path(path, ["/etc/app", "/etc/one.conf"], "allow.paths").parts == parts

    @pytest.mark.parametrize(
        "path",
        ["/etc/application", "/etc/app/../passwd", "etc/app/a", "/etc/app/a\x00", "/", "/etc", "/etc/one.conf/x/../y"],
    )
    def test_other_path_is_refused(self, path: str) -> None:
        with pytest.raises(Refused):
            allowed_path(path, ["/etc/app", "/etc/one.conf"], "allow.paths")

    @pytest.mark.parametrize(
        ("command", "is_allowed"),
        [
            (["systemctl", "reload", "nginx"], True),
            (["systemctl", "reload"], False),
            (["systemctl", "reload", "nginx", "x"], False),
            (["systemctl", "stop", "nginx"], False),
            (["logger", "-t", "x y", "z"], True),
            (["logger"], True),
            (["/tmp/systemctl", "reload", "nginx"], False),
            ("systemctl reload nginx", False),
            ("date | wc -c", True),
        ],
    )
    def test_commands_word_by_word(self, command: Any, is_allowed: bool) -> None:
        consent = Consent(Allow(commands=["systemctl reload *", "logger **"], shell=["date | wc -c"]))
        if is_allowed:
            consent.check_command(command)
        else:
            with pytest.raises(Refused):
                consent.check_command(command)

    @pytest.mark.parametrize(
        ("text", "field"),
        [
            ({"apply": {"auto_apply": "window"}}, "apply.windows: "),
            ({"apply": {"windows": ["25:00-26:00"]}}, r"apply.windows\[0\]: "),
            ({"allow": {"paths": ["relative"]}}, r"allow.paths\[0\]: "),
            ({"allow": {"paths": ["/a/../b"]}}, r"allow.paths\[0\]: "),
            ({"allow": {"commands": ["echo 'x"]}}, r"allow.commands\[0\]: "),
            ({"allow": {"after_update_scripts": ["abc"]}}, r"allow.after_update_scripts\[0\]: "),
            ({"files": [{"path": "x", "mode": "999"}]}, r"files\[0\].mode: "),
            ({"trust": {"update_command": []}}, "trust.update_command: "),
        ],
    )
    def test_wrong_configuration_names_the_field(self, text: dict[str, Any], field: str) -> None:
        with pytest.raises(ConfigError, match=field):
            configuration.decode({"server": "http://x", **text}, DeviceConfig)


class TestWindows:
    @pytest.mark.parametrize(
        ("window", "now", "seconds"),
        [
            ("02:00-04:00", "2026-11-18 02:00", 0),
            ("02:00-04:00", "2026-11-18 04:00", 22 * 3600),
            ("22:00-02:00", "2026-11-18 01:00", 0),
            ("Wed 22:00-02:00", "2026-11-18 01:00", 21 * 3600),
            ("Tue 22:00-02:00", "2026-11-18 01:00", 0),
            ("Sat,Sun 00:00-24:00", "2026-11-18 12:00", 60 * 3600),
            ("Wed 10:00-11:00", "2026-11-18 12:00", (7 * 24 - 2) * 3600),
        ],
    )
    def test_time_until_a_window_opens(self, window: str, now: str, seconds: float) -> None:
        parsed = parse_window(window)
        assert parsed is not None
        assert seconds_until_open([parsed], datetime.datetime.fromisoformat(now)) == seconds

    @pytest.mark.parametrize("text", ["", "2-4", "24:00-25:00", "Xyz 02:00-04:00", "02:00-04:60", "00:00-24:01"])
    def test_wrong_window(self, text: str) -> None:
        assert parse_window(text) is None


class TestPlan:
    def test_dependencies_come_first_and_otherwise_the_given_order(self) -> None:
        items = [
            InstallItem("c", "exec", depends_on=["b"]),
            InstallItem("a", "exec"),
            InstallItem("b", "exec", depends_on=["a"]),
            InstallItem("d", "exec"),
        ]
        assert [item.id for item in plan.ordered(items)] == ["a", "b", "c", "d"]

    @pytest.mark.parametrize("needs", [("b", "a"), ("x", "x")])
    def test_cycle_or_missing_item_is_refused(self, needs: tuple[str, str]) -> None:
        items = [InstallItem("a", "exec", depends_on=[needs[0]]), InstallItem("b", "exec", depends_on=[needs[1]])]
        with pytest.raises(VerificationFailed):
            plan.ordered(items)


class TestFiles:
    def test_file_is_written_with_its_mode_and_replaces_a_link(self, tmp_path: Path) -> None:
        (tmp_path / "elsewhere").write_text("kept")
        (tmp_path / "file").symlink_to(tmp_path / "elsewhere")
        path = AllowedPath(str(tmp_path), ("file",))
        before = files.read_state(path)
        files.write_state(path, state_of(b"new", 0o640))
        assert not (tmp_path / "file").is_symlink()
        assert stat.S_IMODE((tmp_path / "file").stat().st_mode) == 0o640
        assert (tmp_path / "elsewhere").read_text() == "kept"
        assert before is not None
        files.write_state(path, before)
        assert os.readlink(tmp_path / "file") == str(tmp_path / "elsewhere")

    def test_links_below_an_allowed_folder_are_not_followed(self, tmp_path: Path) -> None:
        (tmp_path / "secret").mkdir()
        (tmp_path / "secret" / "key").write_text("secret")
        (tmp_path / "allowed").mkdir()
        (tmp_path / "allowed" / "link").symlink_to(tmp_path / "secret")
        (tmp_path / "allowed" / "key").symlink_to(tmp_path / "secret" / "key")
        root = str(tmp_path / "allowed")
        for use in (files.read_source, lambda path: files.write_state(path, state_of(b"x")), files.remove):
            with pytest.raises(Refused, match="symbolic link"):
                use(AllowedPath(root, ("link", "key")))
        with pytest.raises(Refused, match="cannot be read"):
            files.read_source(AllowedPath(root, ("key",)))
        assert (tmp_path / "secret" / "key").read_text() == "secret"

    def test_folders_and_pipes_are_refused(self, tmp_path: Path) -> None:
        (tmp_path / "folder").mkdir()
        os.mkfifo(tmp_path / "pipe")
        with pytest.raises(Refused, match="folder"):
            files.write_state(AllowedPath(str(tmp_path), ("folder",)), state_of(b"x"))
        for name in ("folder", "pipe"):
            with pytest.raises(Refused, match="not a file"):
                files.read_state(AllowedPath(str(tmp_path), (name,)))

    def test_modes_by_rule_by_the_old_file_or_by_the_kind(self) -> None:
        rules = [FileRule(path="/x/*.key", mode="0640"), FileRule(path="/x/open", mode="666", owner="0", group="0")]
        key, plain = ("/y", "private.key", b""), ("/y", "ca.pem", b"")
        assert wanted_state([], *key, None).mode == 0o600
        assert wanted_state([], *plain, None).mode == 0o644
        assert wanted_state([], *key, state_of(b"", 0o644)).mode == 0o640
        assert wanted_state([], *plain, state_of(b"", 0o664)).mode == 0o664
        assert wanted_state(rules, "/x/a.key", "private.key", b"", None).mode == 0o640
        assert wanted_state(rules, "/x/open", "site.conf", b"", None) == FileState(b"", 0o666, 0, 0)
        with pytest.raises(LookupError, match=r"files.owner: no user"):
            wanted_state([FileRule(path="*", owner="no such user")], *plain, None)


class TestCommands:
    def test_result_and_the_end_of_the_output(self) -> None:
        program = "import sys; print('x' * 9000); print(sys.stdin.read()); sys.exit(3)"
        done = commands.run([sys.executable, "-c", program], timeout_seconds=60, search_path=PATH, stdin=b"given")
        assert (done.exit_code, done.error, done.is_ok) == (3, "exit code 3", False)
        assert done.output.endswith("given")
        assert len(done.output) <= commands.OUTPUT_BYTES_MAX

    def test_environment_is_the_given_one(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("SECRET", "x")
        done = commands.run("env", timeout_seconds=60, search_path=PATH, environment={"GIVEN": "1"})
        assert "GIVEN=1" in done.output
        assert "SECRET" not in done.output

    def test_command_that_takes_too_long_is_killed_with_its_children(self, tmp_path: Path) -> None:
        pipe = tmp_path / "pipe"
        os.mkfifo(pipe)
        reading = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
        command = f"(echo started; exec sleep 600) > {pipe} & sleep 600"
        done = commands.run(command, timeout_seconds=0.5, search_path=PATH)
        assert (done.exit_code, done.error) == (None, "no end within 0.5 s")
        # The pipe has an end once nobody has it open for writing.
        end = time.monotonic() + 60
        while not has_ended(reading):
            assert time.monotonic() < end
            time.sleep(0.02)
        os.close(reading)

    @pytest.mark.parametrize(
        ("command", "options", "error"),
        [
            (["no-such-program"], {}, "no such program"),
            (["true"], {"run_as": "no-such-user"}, "run_as: no user"),
        ],
    )
    def test_command_that_cannot_start(self, command: Any, options: dict[str, Any], error: str) -> None:
        done = commands.run(command, timeout_seconds=60, search_path=PATH, **options)
        assert done.exit_code is None
        assert error in done.error

    @pytest.mark.skipif(os.geteuid() != 0, reason="only root may change the user")
    def test_run_as_changes_user_and_groups(self) -> None:
        done = commands.run("id -u; id -G; echo $HOME", timeout_seconds=60, search_path=PATH, run_as="nobody")
        assert done.is_ok
        assert "0" not in done.output.split()[:2]


def has_ended(reading: int) -> bool:
    try:
        return os.read(reading, 100) == b""
    except BlockingIOError:
        return False


class TestTrustStores:
    def test_nss_databases_get_and_lose_the_authority(self, tmp_path: Path) -> None:
        profile = tmp_path / "profile"
        profile.mkdir()
        (profile / "cert9.db").write_text("")
        fake = tmp_path / "certutil"
        fake.write_text(
            f'#!/bin/sh\necho "$@" >> {tmp_path}/calls\n'
            f'case "$1" in -L) test -e {tmp_path}/known;; -A) cat > {tmp_path}/known;; -D) rm {tmp_path}/known;; esac\n'
        )
        fake.chmod(0o755)
        trust = TrustStores(Trust(store="none", nss_profiles=[f"{tmp_path}/pro*"], certutil=str(fake)), PATH)
        trust.add(4, b"PEM")
        assert (tmp_path / "known").read_bytes() == b"PEM"
        trust.add(4, b"NEW")
        assert (tmp_path / "known").read_bytes() == b"NEW"
        trust.remove(4)
        trust.remove(4)
        assert not (tmp_path / "known").exists()
        assert f"-A -d sql:{profile} -a -t C,, -n restante-ca-4" in (tmp_path / "calls").read_text()

    @pytest.mark.parametrize("store", ["debian", "rhel", "suse", "arch"])
    def test_known_stores(self, store: Any) -> None:
        found = TrustStores(Trust(store=store), PATH).system_store()
        assert found is not None
        assert found.folder.startswith("/")
        assert found.update_command

    def test_failed_update_command_is_an_error(self, tmp_path: Path) -> None:
        trust = TrustStores(Trust(folder=str(tmp_path), update_command=["false"]), PATH)
        with pytest.raises(TrustStoreError, match="false: exit code 1"):
            trust.add(4, b"PEM")


class Crash(BaseException):
    """The process ends here: nothing after it happens."""


class FakeDevice:
    """What the worker needs of a client: one config and one authority, without HTTP."""

    def __init__(
        self, store: DeviceStore, config: InstallConfig, authority: AuthorityBundle, events: list[Any]
    ) -> None:
        self.store = store
        self._config = config
        self._authority = authority
        self._events = events

    def install_config(self, known_version: Optional[int] = None) -> Optional[InstallConfig]:
        return None if known_version == self._config.version else self._config

    def authority_bundle(self, ca_id: int) -> AuthorityBundle:
        return self._authority

    def report(self, *events: Any) -> None:
        self._events.extend(events)


class Machine:
    """A device with files from an earlier config, and the agent's folders."""

    def __init__(self, folder: Path, *, is_failing: bool) -> None:
        folder.mkdir()
        self.folder = folder
        self.out, self.anchors, self.state = folder / "out", folder / "anchors", folder / "state"
        self.events: list[Any] = []
        for path in (self.out, self.anchors, self.state, self.state / "files"):
            path.mkdir()
        for name in ("old", "new", "same"):
            (self.state / "files" / name).write_text(f"{name} after")
        (self.out / "old").write_text("old before")
        (self.out / "old").chmod(0o604)
        (self.out / "same").write_text("same after")
        (self.out / "linked").symlink_to("old")
        targets = [str(self.out / name) for name in ("old", "sub/new", "same", "linked")]
        items = [
            InstallItem("copy", "copy", sources=["old", "new", "same", "new"], targets=targets),
            InstallItem("trust", "import_ca", ob_id=4, sources=["ca.pem"], targets=[str(self.out / "ca.pem")]),
            InstallItem("exec", "exec", cmd=["false" if is_failing else "true"], depends_on=["trust"]),
        ]
        self.install_config = InstallConfig(5, 1, items)
        text = {
            "server": "http://x",
            "allow": {"paths": [str(self.out)], "commands": ["true", "false"]},
            "trust": {"folder": str(self.anchors), "update_command": ["true"], "auto_import": False},
        }
        self.config = configuration.decode(text, DeviceConfig)

    def run(self) -> None:
        """A start of the agent that handles the signal."""
        store = DeviceStore(self.state)
        try:
            device: Any = FakeDevice(store, self.install_config, AUTHORITY, self.events)
            worker = Worker(self.config, self.state, device, AgentStore(store.state), Log("test"), Stopper())
            worker.start()
            worker.add(Signal("install.updated", 1, {}))
            worker.work()
            assert AgentStore(store.state).tasks() == []
            assert AgentStore(store.state).interrupted_run() is None
        finally:
            store.close()

    def files(self) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for path in sorted([*self.out.rglob("*"), *self.anchors.rglob("*")]):
            name = str(path.relative_to(self.folder))
            if path.is_symlink():
                found[name] = os.readlink(path)
            elif path.is_file():
                found[name] = (path.read_bytes(), stat.S_IMODE(path.stat().st_mode))
        return found


AUTHORITY = AuthorityBundle(**authority_bundle(4, "shop"))
CRASH_POINTS = ("fsync", "rename", "replace", "unlink", "symlink")


def crash_at(monkeypatch: pytest.MonkeyPatch, number: int, *, is_before: bool) -> list[int]:
    """Let the process end at the given operation that changes something on disk."""
    count = [0]

    def counted(operation: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            count[0] += 1
            if count[0] == number and is_before:
                raise Crash
            is_last = count[0] == number
            try:
                return operation(*args, **kwargs)
            finally:
                if is_last:
                    raise Crash

        return call

    for name in CRASH_POINTS:
        monkeypatch.setattr(os, name, counted(getattr(os, name)))
    monkeypatch.setattr(StateFolder, "put", counted(StateFolder.put))
    monkeypatch.setattr(AgentStore, "add_change", counted(AgentStore.add_change))
    monkeypatch.setattr(AgentStore, "end_task", counted(AgentStore.end_task))
    monkeypatch.setattr(commands, "run", counted(commands.run))
    return count


def check_every_crash(folder: Path, *, is_failing: bool) -> None:
    """Let the agent crash before and after each change on disk, start it again, and compare the end."""
    whole = Machine(folder / "whole", is_failing=is_failing)
    before = whole.files()
    whole.run()
    wanted = whole.files()
    if is_failing:
        assert wanted == before
    else:
        assert wanted["out/linked"] == (b"new after", 0o644)
        assert "anchors/restante-ca-4.crt" in wanted
    number, is_over = 0, False
    while not is_over:
        number += 1
        for is_before in (True, False):
            machine = Machine(folder / f"{number}-{is_before}", is_failing=is_failing)
            with pytest.MonkeyPatch.context() as crashing:
                count = crash_at(crashing, number, is_before=is_before)
                with contextlib.suppress(Crash):
                    machine.run()
                is_over = count[0] < number
            machine.run()
            assert machine.files() == wanted, (number, is_before)
            types = {event["type"] for event in machine.events}
            assert types == {"install.failed" if is_failing else "install.applied"}, (number, is_before)
    assert number > 20


@pytest.fixture
def materials_in_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(materials, "in_child", materials.make)


@pytest.mark.usefixtures("materials_in_this_process")
class TestCrashes:
    @pytest.mark.parametrize("is_failing", [False, True], ids=["applied", "rolled-back"])
    def test_crash_at_any_point_leads_to_the_same_end(self, tmp_path: Path, is_failing: bool) -> None:
        check_every_crash(tmp_path, is_failing=is_failing)

    @pytest.mark.parametrize("name", ["_journal", "recover", "_restore_authority", "_restore_file"])
    def test_agent_that_leaves_a_part_out_is_caught(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
    ) -> None:
        monkeypatch.setattr(Applier, name, lambda *args: None)
        with pytest.raises((AssertionError, OSError)):
            check_every_crash(tmp_path, is_failing=True)
