"""The collector program: commands on simulated miners, safety, telemetry, and a server that plays a script."""

from __future__ import annotations

import gzip
import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from edge_script import OK, SECRET, acks, command, polled, refusal, reply
from scripted_server import Lost, Reply, Request, ScriptedServer

from restante_client import BlockingCollectorClient, CollectorOptions
from restante_client.agent.collector import leases
from restante_client.agent.collector.execution import CommandExecutor, ExecutionRecord
from restante_client.agent.collector.inventory import Inventory, MinerEntry, load_inventory
from restante_client.agent.collector.monitor import Monitor
from restante_client.agent.collector.safety import SafetyConfig, SafetyOverride
from restante_client.agent.collector.simulated import SimulatedMinerServer, inventory_text, simulated_miners
from restante_client.agent.collector.work import CollectorWork
from restante_client.agent.config import ConfigError
from restante_client.agent.logs import Log
from restante_client.agent.main import main
from restante_client.agent.stopping import Stopper
from restante_client.collector.models import Command, Result, command_of
from restante_client.errors import Conflict, Unreachable
from restante_client.runtime import steady_seconds
from restante_client.state import StateFolder

LOG = Log("collector")


@pytest.fixture
def miners() -> Iterator[list[SimulatedMinerServer]]:
    with simulated_miners(2) as servers:
        yield servers


@pytest.fixture
def inventory(miners: list[SimulatedMinerServer], tmp_path: Path) -> Inventory:
    file = tmp_path / "inventory.toml"
    file.write_text(inventory_text(miners, first_id=1001))
    return load_inventory(file)


@pytest.fixture
def state(tmp_path: Path) -> Iterator[StateFolder]:
    folder = StateFolder(tmp_path / "state")
    yield folder
    folder.close()


@pytest.fixture
def executor(inventory: Inventory, state: StateFolder) -> CommandExecutor:
    return CommandExecutor(inventory, ExecutionRecord(state), lambda seconds: False, LOG, back_seconds=30)


def given(command_type: str, params: dict[str, Any] | None = None, **changed: Any) -> Command:
    fields = command(command_type=command_type, params=params or {}, **changed)
    return command_of(fields, "2026-01-18T10:00:00Z", steady_seconds())


def execute(executor: CommandExecutor, found: Command, *, is_held: bool = True) -> Result:
    return executor.execute(found, lambda: is_held)


class TestExecution:
    def test_result_has_snapshots_of_before_and_after(self, executor: CommandExecutor) -> None:
        result = execute(executor, given("SET_FREQUENCY", {"frequency": 400}))
        assert (result.status, result.result_code, result.message) == ("succeeded", 0, "frequency 400 MHz")
        assert result.before is not None
        assert result.after is not None
        assert (result.before["frequency"], result.after["frequency"]) == (500.0, 400.0)

    @pytest.mark.parametrize(
        ("command_type", "params", "sent"),
        [
            ("MINER_RESTART", {}, ("restart", "")),
            ("DEVICE_REBOOT", {"delay_sec": 0}, ("ascset", "0,reboot,0")),
            ("HASHING_ENABLE", {}, ("ascenable", "0")),
            ("HASHING_DISABLE", {}, ("ascdisable", "0")),
            ("POOL_SET", {"pool_id": 0}, ("switchpool", "0")),
            ("POOL_SET", {"pool_url": "stratum+tcp://p:1", "pool_user": "u"}, ("addpool", "stratum+tcp://p:1,u,")),
            ("SET_FAN", {"speed": 70}, ("ascset", "0,fan,70")),
            ("POWER_MODE", {"mode": "HIGH"}, ("ascset", "0,workmode,2")),
            ("POWER_MODE", {"power_mode": "LOW"}, ("ascset", "0,workmode,0")),
        ],
    )
    def test_each_command_type_is_carried_out(
        self,
        executor: CommandExecutor,
        miners: list[SimulatedMinerServer],
        command_type: str,
        params: dict[str, Any],
        sent: tuple[str, str],
    ) -> None:
        assert execute(executor, given(command_type, params)).status == "succeeded"
        assert miners[0].executed()[0] == sent

    @pytest.mark.parametrize(
        ("command_type", "params", "code"),
        [
            ("SET_FAN", {"speed": 101}, "WRONG_PARAMETER"),
            ("SET_FAN", {}, "WRONG_PARAMETER"),
            ("SET_FREQUENCY", {"frequency": True}, "WRONG_PARAMETER"),
            ("POWER_MODE", {"mode": "TURBO"}, "WRONG_PARAMETER"),
            ("POOL_SET", {"pool_url": 7}, "WRONG_PARAMETER"),
            ("DEVICE_REBOOT", {"delay_sec": 86_401}, "WRONG_PARAMETER"),
            ("MINER_EXPLODE", {}, "WRONG_PARAMETER"),
            ("SET_FREQUENCY", {"frequency": 9000}, "MINER_120"),
        ],
    )
    def test_wrong_command_is_rejected_and_changes_nothing(
        self, executor: CommandExecutor, command_type: str, params: dict[str, Any], code: str
    ) -> None:
        result = execute(executor, given(command_type, params))
        assert (result.status, result.result_code) == ("rejected", code)
        assert result.before == result.after or result.after is None

    def test_address_in_the_parameters_is_ignored(
        self, executor: CommandExecutor, miners: list[SimulatedMinerServer]
    ) -> None:
        elsewhere = {"frequency": 400, "host": "127.0.0.1", "port": miners[1].port, "ip": "10.0.0.1"}
        assert execute(executor, given("SET_FREQUENCY", elsewhere)).status == "succeeded"
        assert miners[1].executed() == []

    def test_miner_outside_the_inventory_is_rejected(self, executor: CommandExecutor) -> None:
        result = execute(executor, given("MINER_RESTART", miner_id=7))
        assert (result.status, result.result_code) == ("rejected", "NOT_IN_INVENTORY")

    def test_unreachable_miner_is_a_failure(
        self, executor: CommandExecutor, miners: list[SimulatedMinerServer]
    ) -> None:
        miners[0].miner.held_temperature = 120
        result = execute(executor, given("MINER_RESTART"))
        assert (result.status, result.result_code) == ("failed", "MINER_NO_ANSWER")
        assert "may have" not in result.message, "nothing but a reading was sent"

    def test_lost_answer_is_reported_as_unknown(
        self, executor: CommandExecutor, miners: list[SimulatedMinerServer]
    ) -> None:
        """The answer to the operation is lost, after the snapshot of before."""
        answer, server = miners[0].miner.answer, miners[0]

        def lose_after(command: str, parameter: str) -> dict[str, Any]:
            server.is_losing_answers = command == "ascset"
            return answer(command, parameter)

        server.miner.answer = lose_after  # type: ignore[method-assign]
        result = execute(executor, given("SET_FREQUENCY", {"frequency": 400}))
        assert (result.status, result.result_code) == ("failed", "MINER_NO_ANSWER")
        assert result.message.endswith("it may have done it")
        assert server.miner.frequency == 400

    def test_nothing_is_sent_without_the_lease(
        self, executor: CommandExecutor, miners: list[SimulatedMinerServer]
    ) -> None:
        result = execute(executor, given("MINER_RESTART"), is_held=False)
        assert (result.status, result.result_code) == ("deferred", "LEASE_ENDED")
        assert miners[0].executed() == []

    def test_delayed_command_is_deferred_until_it_is_due(
        self,
        executor: CommandExecutor,
        miners: list[SimulatedMinerServer],
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        now = [1000.0]
        monkeypatch.setattr("restante_client.agent.collector.execution.time.time", lambda: now[0])
        found = given("MINER_RESTART", {"delay_sec": 60})
        result = execute(executor, found)
        assert (result.status, result.result_code, result.retry_after_seconds) == ("deferred", "DELAYED", 60)
        now[0] += 45
        assert execute(executor, found).retry_after_seconds == 15
        assert miners[0].executed() == []
        now[0] += 15
        assert execute(executor, found).status == "succeeded"
        assert miners[0].executed() == [("restart", "")]

    def test_restarted_miner_that_stays_away_is_a_failure(
        self, inventory: Inventory, state: StateFolder, miners: list[SimulatedMinerServer]
    ) -> None:
        miners[0].miner.restart_seconds = 3600
        impatient = CommandExecutor(inventory, ExecutionRecord(state), lambda seconds: False, LOG, back_seconds=0)
        assert execute(impatient, given("MINER_RESTART")).result_code == "MINER_NOT_BACK"

    def test_program_that_stops_reports_an_accepted_restart(
        self, inventory: Inventory, state: StateFolder, miners: list[SimulatedMinerServer]
    ) -> None:
        miners[0].miner.restart_seconds = 3600
        stopping = CommandExecutor(inventory, ExecutionRecord(state), lambda seconds: True, LOG)
        result = execute(stopping, given("MINER_RESTART"))
        assert (result.status, result.after) == ("succeeded", None)

    def test_commands_for_one_miner_run_one_after_another(
        self, executor: CommandExecutor, inventory: Inventory, miners: list[SimulatedMinerServer]
    ) -> None:
        with inventory[1001].lock:
            waiting = threading.Thread(target=execute, args=(executor, given("SET_FAN", {"speed": 70})))
            waiting.start()
            assert execute(executor, given("SET_FAN", {"speed": 71}, miner_id=1002)).status == "succeeded"
            assert miners[0].executed() == []
        waiting.join(30)
        assert ("ascset", "0,fan,70") in miners[0].executed()


class TestSeveralMiners:
    def test_command_for_all_has_a_snapshot_of_each(self, executor: CommandExecutor) -> None:
        found = given("SET_FAN", {"speed": 70, "target_ids": [1001, 1002]}, miner_id=None)
        result = execute(executor, found)
        assert (result.status, result.message) == ("succeeded", "2 miners")
        assert set(result.after or {}) == {"1001", "1002"}

    def test_retry_asks_only_the_miners_that_failed(
        self, executor: CommandExecutor, miners: list[SimulatedMinerServer]
    ) -> None:
        found = given("SET_FAN", {"speed": 70, "target_ids": [1001, 1002]}, miner_id=None)
        miners[1].miner.held_temperature = 120
        result = execute(executor, found)
        assert (result.status, result.result_code) == ("failed", "MINER_NO_ANSWER")
        assert result.message.startswith("1 of 2 miners did it. 1002 MINER_NO_ANSWER")
        sent = len(miners[0].executed())
        miners[1].miner.held_temperature = 50
        assert execute(executor, found).status == "succeeded"
        assert len(miners[0].executed()) == sent
        assert miners[1].miner.fan_percent == 70

    def test_unknown_miners_alone_are_a_rejection(self, executor: CommandExecutor) -> None:
        found = given("SET_FAN", {"speed": 70, "target_ids": [1001, 7]}, miner_id=None)
        assert execute(executor, found).result_code == "NOT_IN_INVENTORY"
        assert execute(executor, given("SET_FAN", {"speed": 70}, miner_id=None)).result_code == "NO_TARGETS"


class TestSafety:
    def check(self, inventory: Inventory, state: StateFolder, **config: Any) -> tuple[Any, list[dict[str, Any]]]:
        events: list[dict[str, Any]] = []
        override = SafetyOverride(SafetyConfig(**config), state, events.extend, LOG)
        miner = inventory[1001]
        return override.check(miner, miner.driver.read()), events

    @pytest.mark.parametrize(("temperature", "action"), [(84.0, None), (85.5, "disable"), (95.5, "reboot")])
    def test_hot_miner_is_disabled_and_a_hotter_one_rebooted(
        self,
        inventory: Inventory,
        state: StateFolder,
        miners: list[SimulatedMinerServer],
        temperature: float,
        action: str | None,
    ) -> None:
        self.heat(miners[0], temperature)
        found, events = self.check(inventory, state, enabled=True)
        assert found == action
        assert [event["action"] for event in events] == ([] if action is None else ["THERMAL_SHUTDOWN"])
        assert any(miners[0].miner.boards) is (action != "disable")
        # Within the cooldown, and after a restart of the program, it is not repeated. A miner that a reboot has not
        # cooled is disabled.
        assert self.check(inventory, state, enabled=True)[0] == ("disable" if action == "reboot" else None)
        assert self.check(inventory, state, enabled=True) == (None, [])

    def test_it_is_off_unless_configured(
        self, inventory: Inventory, state: StateFolder, miners: list[SimulatedMinerServer]
    ) -> None:
        self.heat(miners[0], 100)
        assert self.check(inventory, state) == (None, [])
        assert miners[0].executed() == []

    def test_failed_action_has_a_second_event_and_is_tried_again(
        self, inventory: Inventory, state: StateFolder, miners: list[SimulatedMinerServer]
    ) -> None:
        self.heat(miners[0], 90)
        miner = inventory[1001]
        reading = miner.driver.read()
        self.heat(miners[0], 120)
        events: list[dict[str, Any]] = []
        override = SafetyOverride(SafetyConfig(enabled=True), state, events.extend, LOG)
        for _ in range(2):
            override.check(miner, reading)
        assert ["failed" in event["reason"] for event in events] == [False, True, False, True]
        assert len({event["ts"] for event in events}) == 4

    @staticmethod
    def heat(server: SimulatedMinerServer, temperature: float) -> None:
        with server.lock:
            server.miner.held_temperature = temperature


class TestLeases:
    def test_lease_is_lengthened_after_half_and_lost_if_refused(self, monkeypatch: pytest.MonkeyPatch) -> None:
        now = [0.0]
        monkeypatch.setattr(leases, "steady_seconds", lambda: now[0])
        answers: list[Any] = [None, Unreachable("away"), Conflict(409, "ACK_NOT_LEASE_OWNER", "no")]
        extended: list[int] = []

        def extend(found: Command, seconds: int) -> None:
            extended.append(seconds)
            answer = answers.pop(0)
            if answer is not None:
                raise answer

        keeper = leases.LeaseKeeper(extend, LOG)
        lease = keeper.add(given("MINER_RESTART"))
        lease.ends, lease.extend_at = 10.0, 5.0
        keeper.extend_due()
        assert extended == []
        now[0] = 5.0
        keeper.extend_due()
        assert (extended, lease.ends) == ([60], 65.0)
        now[0] = 40.0
        keeper.extend_due()
        assert lease.is_held(), "a server that is away does not take the lease"
        keeper.extend_due()
        assert not lease.is_held()


class TestMonitor:
    def test_free_miners_are_read_and_silent_ones_logged_once(
        self,
        inventory: Inventory,
        state: StateFolder,
        miners: list[SimulatedMinerServer],
        caplog: pytest.LogCaptureFixture,
    ) -> None:
        caplog.set_level("INFO")
        safety = SafetyOverride(SafetyConfig(), state, lambda events: None, LOG)
        monitor = Monitor(inventory, safety, lambda records: None, LOG)
        with inventory[1002].lock:
            assert [record["miner_id"] for record in monitor.read_all()] == [1001]
        miners[1].miner.held_temperature = 120
        for _ in range(2):
            assert [record["miner_id"] for record in monitor.read_all()] == [1001]
        miners[1].miner.held_temperature = 50
        assert [record["temp_max"] for record in monitor.read_all()][1] == 50
        assert caplog.messages == ["miner does not answer", "miner answers again"]

    def test_telemetry_is_added_less_often_than_miners_are_read(self, inventory: Inventory, state: StateFolder) -> None:
        added: list[Any] = []
        reads = [0]
        stop = threading.Event()

        class Counting(SafetyOverride):
            def check(self, miner: Any, reading: Any) -> Any:
                reads[0] += 1
                if reads[0] >= 8:
                    stop.set()

        safety = Counting(SafetyConfig(), state, lambda events: None, LOG)
        Monitor(inventory, safety, added.append, LOG).run(stop, 0.001, 3600)
        assert (len(added), len(added[0])) == (1, 2)


def make_own_driver(entry: MinerEntry) -> Any:
    return f"driver of {entry.host}"


class TestInventory:
    def test_driver_of_the_owner_is_loaded(self, tmp_path: Path) -> None:
        file = tmp_path / "inventory.toml"
        file.write_text('[[miners]]\nid = 1\nhost = "x"\ndriver = "test_agent_collector:make_own_driver"\n')
        assert str(load_inventory(file)[1].driver) == "driver of x"

    @pytest.mark.parametrize(
        ("text", "message"),
        [
            ("miners = 1", "miners"),
            ("[[miners]]\nid = 1", "host"),
            ('[[miners]]\nid = 0\nhost = "x"', "id"),
            ('[[miners]]\nid = 1\nhost = "x"\ncloud = "y"', "cloud"),
            ('[[miners]]\nid = 1\nhost = "x"\n[[miners]]\nid = 1\nhost = "y"', "each id once"),
            ('[[miners]]\nid = 1\nhost = "x"\noperations = {explode = "x"}', "explode"),
            ('[[miners]]\nid = 1\nhost = "x"\ndriver = "telnet"', "driver: expected cgminer"),
            ('[[miners]]\nid = 1\nhost = "x"\ndriver = "json:nothing"', "driver: expected cgminer"),
            ("nonsense", "not TOML"),
        ],
    )
    def test_wrong_inventory_names_the_problem(self, tmp_path: Path, text: str, message: str) -> None:
        file = tmp_path / "inventory.toml"
        file.write_text(text)
        with pytest.raises(ConfigError, match=message):
            load_inventory(file)


class TestProgram:
    @pytest.fixture
    def config(self, server: ScriptedServer, inventory: Inventory, tmp_path: Path) -> Path:
        for name, text in {"token": "ed_secret", "secret": SECRET}.items():
            (tmp_path / name).write_text(text + "\n")
            (tmp_path / name).chmod(0o600)
        file = tmp_path / "collector.toml"
        file.write_text(
            f'server = "{server.url}"\nstate = "{tmp_path / "state"}"\ninventory = "{tmp_path / "inventory.toml"}"\n'
            f'token_file = "{tmp_path / "token"}"\nsecret_file = "{tmp_path / "secret"}"\n'
        )
        return file

    def test_once_executes_acknowledges_and_sends_telemetry(
        self, config: Path, server: ScriptedServer, miners: list[SimulatedMinerServer]
    ) -> None:
        fan = command(command_type="SET_FAN", params={"speed": 70})
        server.add(polled(fan), reply(OK), reply({"processed": 2, "failed": 0}))
        assert main(["collector", "run", "--once", "--config", str(config)]) == 0
        (ack,) = acks(server)
        assert (ack["status"], ack["message"]) == ("succeeded", "fan 70 %")
        assert miners[0].miner.fan_percent == 70
        telemetry = json.loads(gzip.decompress(server.requests[-1].body))
        assert [record["miner_id"] for record in telemetry["records"]] == [1001, 1002]

    def test_status_counts_what_waits(
        self, config: Path, server: ScriptedServer, capsys: pytest.CaptureFixture[str]
    ) -> None:
        assert main(["collector", "status", "--json", "--config", str(config)]) == 0
        assert json.loads(capsys.readouterr().out)["is_running"] is False
        server.add(polled(command()), Lost())
        assert main(["collector", "run", "--once", "--config", str(config)]) == 4
        capsys.readouterr()
        assert main(["collector", "status", "--json", "--config", str(config)]) == 0
        found = json.loads(capsys.readouterr().out)
        assert (found["commands_executed"], found["waiting_acks"], found["waiting_telemetry"]) == (1, 1, 1)

    def test_doctor_checks_files_server_and_miners(
        self,
        config: Path,
        server: ScriptedServer,
        miners: list[SimulatedMinerServer],
        tmp_path: Path,
        capsys: pytest.CaptureFixture[str],
    ) -> None:
        server.add(refusal(400, "INVALID_REQUEST"), refusal(401, "UNAUTHORIZED"))
        assert main(["collector", "doctor", "--config", str(config)]) == 0
        (tmp_path / "token").chmod(0o644)
        miners[1].miner.held_temperature = 120
        assert main(["collector", "doctor", "--config", str(config)]) == 1
        failed = [line for line in capsys.readouterr().out.splitlines() if line.startswith("FAILED")]
        assert [line.split()[1].rstrip(":") for line in failed] == ["token_file", "server", "miner"]

    def test_configuration_needs_a_secret_for_signatures(
        self, config: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        config.write_text("\n".join(line for line in config.read_text().splitlines() if "secret_file" not in line))
        assert main(["collector", "run", "--config", str(config)]) == 2
        assert "secret_file: expected" in capsys.readouterr().err


def test_all_jobs_of_the_collector_work_together_until_it_is_stopped(
    server: ScriptedServer, inventory: Inventory, miners: list[SimulatedMinerServer], tmp_path: Path
) -> None:
    """Polls, workers, monitor and sender run at the same time; the server says no at first."""
    stopper, refusals = Stopper(), [1]
    commands = [command(number, command_type="SET_FAN", params={"speed": 70 + number}) for number in range(3)]

    def answer(request: Request) -> Reply:
        if refusals:
            refusals.pop()
            return refusal(503, "UNAVAILABLE")
        if request.path.endswith("/batch"):
            return reply({"processed": 1, "failed": 0})
        if request.path.endswith("/ack"):
            return reply(OK)
        has_all = len(acks(server)) == 3 and any(each.path.endswith("/batch") for each in server.requests)
        stopper.is_stopped = has_all
        return polled(*([commands.pop(0)] if commands else []))

    server.add(*[answer] * 1000)
    options = CollectorOptions(secrets=[SECRET])
    stop = threading.Event()
    with BlockingCollectorClient(server.url, "ed_secret", tmp_path / "s", options) as client:
        record = ExecutionRecord(client.store.state)
        executor = CommandExecutor(inventory, record, stop.wait, LOG)
        safety = SafetyOverride(SafetyConfig(), client.store.state, client.add_safety_events, LOG)
        monitor = Monitor(inventory, safety, client.add_telemetry, LOG)
        CollectorWork(client, executor, monitor, stopper, LOG, workers=2, wait_seconds=0).run(stop, 0.05, 0.05)
        assert client.store.waiting()["ack"] == 0
    assert sorted(ack["message"] for ack in acks(server)) == ["fan 70 %", "fan 71 %", "fan 72 %"]
    assert {parameter for _, parameter in miners[0].executed() if parameter.startswith("0,")} == {
        "0,fan,70",
        "0,fan,71",
        "0,fan,72",
    }


def test_ack_is_sent_before_telemetry_that_waited_longer(server: ScriptedServer, tmp_path: Path) -> None:
    """An ACK that is added while a long backlog is sent does not wait for the end of the backlog."""
    options = CollectorOptions(secrets=[SECRET])
    with BlockingCollectorClient(server.url, "ed_secret", tmp_path / "s", options) as collector:
        server.add(polled(command()))
        (found,) = collector.poll()
        for _ in range(2):
            collector.add_telemetry([{"miner_id": 1, "ts": "2026-01-18T10:00:00Z"}])

        def acknowledge_meanwhile(request: Request) -> Reply:
            collector.carry_out(found, lambda each: Result())
            return reply({"processed": 1, "failed": 0})

        server.add(acknowledge_meanwhile, reply(OK), reply({"processed": 1, "failed": 0}))
        collector.flush()
    kinds = [request.path.rpartition("/")[2] for request in server.requests[1:]]
    assert kinds == ["batch", "ack", "batch"]
